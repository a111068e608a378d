// The pressed cell of the attention map, unfolded into query, key, scores and weights.

import { note } from "../parts/elements.js";
import { on, visitor } from "../parts/page.js";
import { question } from "../parts/question.js";
import { floats, unfolded } from "./row.js";

const INPUT = ["model", "step", "newest", "text", "pair", "hidden", "head"];

/** @type {View} */
export function unfoldedCell(root, { server }) {
  let asked = 0;
  document.addEventListener("unfold", (event) => {
    const { head, tokens, i, j } = /** @type {CustomEvent} */ (event).detail;
    const number = (asked += 1);
    server.unfold(visitor.token, { ...question, hidden: question.hidden ?? [], head }).then((found) => {
      if (number !== asked) return;
      if (found.error) { root.replaceChildren(note(found.error, true)); return; }
      // Hidden [CLS] and [SEP] take part in the row all the same.
      const shown = found.tokens.length === tokens ? found.tokens.map((_, at) => at) : found.words;
      const [query, key, value] = [found.query, found.key, found.value].map(floats);
      root.replaceChildren(unfolded({ tokens: found.tokens, query, key, value }, shown[i], shown[j]));
    }).catch(console.warn);
  });
  on("question", ({ changed }) => {
    if (!INPUT.some((key) => changed.has(key))) return;
    asked += 1;
    root.replaceChildren();
  });
  return () => {};
}
