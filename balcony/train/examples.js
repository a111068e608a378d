// Texts to choose by one press, for whoever has none at hand: a line for each language. A file that is dropped on the field
// is read. What a person typed before is kept.

import { button, el, roam } from "../parts/elements.js";
import { say } from "../frame/page.js";

const MOST_DROPPED = 1e6; // bytes that a field shows without a delay
const NOT_DROPPED = "Choose “Upload a text file” for this file: it is large, or its encoding is not UTF-8.";

/** @typedef {[language: string, texts: [name: string, kind: string][]]} Line */

/** @type {View} */
export function view(root, { options, trigger }) {
  let mine = ""; // the text of the person's that another one has replaced
  let isTyped = false; // the text in the field
  const field = () => /** @type {HTMLTextAreaElement | null} */ (document.querySelector("#pasted textarea"));
  document.addEventListener("input", ({ target }) => {
    isTyped ||= target === field();
  });
  /** Put another text in place of that in the field. @param {{name: string, text: string}} other @param {boolean} isMine */
  const replace = (other, isMine) => {
    const before = field()?.value ?? "";
    if (isTyped && before.trim()) mine = before;
    isTyped = isMine;
    again.classList.toggle("is-away", !mine);
    trigger("chosen", other);
  };
  /** @param {File} file */
  const read = async (file) => {
    if (file.size > MOST_DROPPED) return say(NOT_DROPPED);
    try {
      const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
      replace({ name: "", text }, true);
    } catch {
      say(NOT_DROPPED);
    }
  };
  for (const name of ["dragover", "drop"])
    document.addEventListener(name, (event) => {
      const { dataTransfer, target } = /** @type {DragEvent} */ (event);
      if (target !== field() || !dataTransfer?.types.includes("Files")) return;
      event.preventDefault(); // else the browser leaves the page for the file
      if (dataTransfer.files.length) read(dataTransfer.files[0]);
    });
  const back = () => replace({ name: "", text: mine }, true),
    again = button("My text again", back, { id: "own-text-again", class: "b-small is-away" });
  const line = (/** @type {Line} */ [language, texts], /** @type {number} */ k) =>
    el(
      "div.b-tools",
      { role: "group", "aria-labelledby": `examples-${k}` },
      el("span.b-examples-language", { id: `examples-${k}`, translate: "no" }, language),
      texts.map(([name, kind]) => button(kind, () => replace({ name, text: "" }, false), { id: `example-${name}` })),
    );
  const lines = el("div.b-examples", options.texts.map(line));
  root.append(el("div.b-tools", el("b", "Or take an example"), again), lines);
  roam(lines, options.texts[0][1].length);
}
