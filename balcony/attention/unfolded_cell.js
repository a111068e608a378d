// The pressed cell of the attention map, unfolded into query, key, scores and weights beside the map.

import { bringIn, button, el, fill, note, tools } from "../parts/elements.js";
import { floats } from "../parts/numbers.js";
import { latest, on, orError } from "../frame/page.js";
import { onPart } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { unfolded } from "../parts/row.js";

const INPUT = ["model", "step", "newest", "text", "pair", "hidden", "head"];

/** @type {View} */
export function view(root) {
  let asked = 0;
  const map = () => /** @type {HTMLElement | null} */ (document.querySelector("#attention-map .b-map"));
  const clear = () => {
    asked += 1;
    fill(root);
  };
  const close = () => {
    clear();
    map()?.focus({ preventScroll: true });
  };
  /** @param {Node} content */
  function show(content) {
    const closing = tools(button("✕", close, { "aria-label": "Close the computation", title: "Close" })),
      panel = el("div.b-computation", { "data-no-picture": "" }, closing, content);
    fill(root, panel);
    bringIn(panel);
  }
  document.addEventListener("keydown", ({ key, target }) => {
    const isHere = target === document.body || (target instanceof Element && target.closest("#attention-stage"));
    if (key === "Escape" && isHere && root.hasChildNodes()) close();
  });
  const unfold = latest(async ({ head, tokens, i, j }) => {
    const number = (asked += 1);
    const found = await orError(answer("unfold", ...head));
    if (number !== asked) return;
    if (found.error) return show(note(found.error, true));
    // Hidden [CLS] and [SEP] take part in the row all the same.
    const shown = found.tokens.length === tokens ? found.tokens.map((_, at) => at) : found.words;
    const [query, key, value] = [found.query, found.key, found.value].map(floats);
    show(unfolded({ tokens: found.tokens, query, key, value }, shown[i], shown[j]));
  });
  on("unfold", unfold);
  onPart(INPUT, clear);
}
