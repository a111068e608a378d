// Texts to choose by one press, for whoever has none at hand: a line for each language. What a person typed before is kept.

import { button, el, roam } from "../parts/elements.js";
import { on } from "../frame/page.js";

/** @typedef {[language: string, texts: [name: string, kind: string][]]} Line */

/** @type {View} */
export function view(root, { options, trigger }) {
  /** @type {string[]} */
  const typed = []; // texts of the person's, which others have replaced; the newest comes last
  let isTyped = false; // the text in the field
  const field = () => /** @type {HTMLTextAreaElement | null} */ (document.querySelector("#pasted textarea"));
  document.addEventListener("input", ({ target }) => {
    isTyped ||= target === field();
  });
  const keep = () => [field()?.value ?? ""].filter((text) => isTyped && text.trim());
  /** Replace the text. @param {string} name of an example, "" for the newest typed text */
  const take = (name) => {
    const before = keep(),
      text = name ? "" : typed.pop();
    if (name) typed.push(...before);
    else typed.unshift(...before);
    isTyped = !name;
    again.hidden = !typed.length;
    trigger("chosen", { name, text });
  };
  on("fill", ({ text }) => {
    if (!text) return;
    typed.push(...keep());
    isTyped = false;
    again.hidden = !typed.length;
  });
  const again = button("My text again", () => take(""), { id: "own-text-again", hidden: "" });
  const line = (/** @type {Line} */ [language, texts], /** @type {number} */ k) =>
    el(
      "div.b-tools",
      { role: "group", "aria-labelledby": `examples-${k}` },
      el("span.b-examples-language", { id: `examples-${k}`, translate: "no" }, language),
      texts.map(([name, kind]) => button(kind, () => take(name), { id: `example-${name}` })),
    );
  const lines = el("div.b-examples", options.texts.map(line));
  root.append(el("div.b-tools", el("b", "Or take an example"), again), lines);
  roam(lines, options.texts[0][1].length);
  return function drawn() {};
}
