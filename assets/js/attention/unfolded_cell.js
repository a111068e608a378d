// The pressed cell of the attention map, unfolded into query, key, scores and weights.

import { fill, note } from "../parts/elements.js";
import { floats } from "../parts/numbers.js";
import { latest, on, orError, visitor } from "../frame/page.js";
import { question } from "../frame/question.js";
import { unfolded } from "../parts/row.js";

const INPUT = ["model", "step", "newest", "text", "pair", "hidden", "head"];

/** @type {View} */
export function view(root, { server }) {
  let asked = 0;
  const unfold = latest(async ({ head, tokens, i, j }) => {
    const number = (asked += 1);
    const found = await orError(server.unfold(visitor.token, { ...question, head }));
    if (number !== asked) return;
    if (found.error) {
      fill(root, note(found.error, true));
      return;
    }
    // Hidden [CLS] and [SEP] take part in the row all the same.
    const shown = found.tokens.length === tokens ? found.tokens.map((_, at) => at) : found.words;
    const [query, key, value] = [found.query, found.key, found.value].map(floats);
    fill(root, unfolded({ tokens: found.tokens, query, key, value }, shown[i], shown[j]));
  });
  document.addEventListener("unfold", (event) => unfold(/** @type {CustomEvent} */ (event).detail));
  on("question", ({ changed }) => {
    if (!INPUT.some((key) => changed.has(key))) return;
    asked += 1;
    fill(root);
  });
  return () => {};
}
