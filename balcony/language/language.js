// The language of the page. Its texts are English in the code; when another language is chosen, the translator is fetched
// and replaces them where they stand in the page.

import { el } from "../parts/elements.js";
import { choice } from "../frame/page.js";

/** Each by the code that <html lang> gets. */
const LANGUAGES = { en: "English", "zh-CN": "中文", ko: "한국어" };
const CODES = /** @type {(keyof typeof LANGUAGES)[]} */ (Object.keys(LANGUAGES));

/** @type {typeof import("./translator.js") | null} */
let translator = null;

const names = CODES.map((code) => el("option", { value: code, lang: code, translate: "no" }, LANGUAGES[code]));
const control = el("select", { id: "language", "aria-label": "Language" }, names);

/** The control for the bar at the top. */
export const languages = () => control;

/** Show the page in a language; it stays as it is if the texts cannot be fetched. @param {string} code */
async function speak(code) {
  const { documentElement: page } = document;
  try {
    if (code !== "en") translator ??= await import("./translator.js");
    await translator?.translate(code);
    page.lang = code;
  } catch (error) {
    console.warn(error);
  }
  control.value = page.lang;
}

/** An HTML page in the language of this one. @param {string} html */
export const saved = (html) => translator?.saved(html) ?? html;

/** The code of the language to begin with: the one chosen here before, or else the browser's. */
function wished() {
  const chosen = choice("language");
  if (chosen && chosen in LANGUAGES) return chosen;
  const known = navigator.languages.map((each) => CODES.find((code) => code.slice(0, 2) === each.slice(0, 2)));
  return known.find(Boolean) ?? "en";
}

control.addEventListener("change", () => {
  choice("language", control.value);
  speak(control.value);
});
document.documentElement.lang = "en";
speak(wished());
