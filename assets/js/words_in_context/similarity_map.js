// One word in different sentences: its two text boxes, and a map of how similar its vectors are.

import { el } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { ask } from "../frame/question.js";

const HINT = "Point at a cell to read how similar the two vectors are.";

/** @typedef {{title: string, labels: string[], cosine: number[][]}} Similarities */

// Only a person's typing is an "input" of the document, not an example that the server puts into a box.
document.addEventListener("input", ({ target }) => {
  if (!(target instanceof HTMLInputElement || target instanceof HTMLTextAreaElement)) return;
  if (target.closest("#context-word")) ask({ word: target.value });
  if (target.closest("#context-sentences")) ask({ contexts: target.value.split("\n").filter((line) => line.trim()) });
});

/** @type {View} */
export function view(root) {
  const title = el("h3", {});
  const readout = el("p", { class: "b-readout", "aria-live": "polite" });
  const map = heatMap(readout);
  /** @type {Similarities} */
  let value;
  let width = 0;
  new ResizeObserver(() => {
    if (value && root.clientWidth && root.clientWidth !== width) show();
  }).observe(root);

  function show() {
    width = root.clientWidth;
    const { labels, cosine } = value;
    const rows = labels.map((text, index) => `${index + 1} ${text}`);
    title.textContent = value.title;
    map.draw({
      rows,
      columns: labels.map((_, index) => `${index + 1}`),
      values: cosine.flat(),
      measure: "1 = same direction, 0 = perpendicular",
      ticks: [-1, -0.5, 0, 0.5, 1],
      room: width || 500,
      largest: 44,
      letters: width > 520 ? 36 : 22,
      hint: HINT,
      label: `${value.title}; the arrow keys go from cell to cell`,
      describe: (i, j) => [el("bdi", {}, rows[i]), " and ", el("bdi", {}, rows[j]), `: ${cosine[i][j].toFixed(3)}`],
    });
  }

  return function draw(/** @type {Similarities | null} */ next) {
    if (!next) {
      root.replaceChildren();
      return;
    }
    value = next;
    if (!title.isConnected) root.replaceChildren(title, map.element, readout);
    show();
  };
}
