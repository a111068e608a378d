// A map of how similar vectors are: of one word in several sentences, or of whole sentences.

import { el, fill } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";

/** @typedef {{title: string, labels: string[], cosine: number[][]}} Similarities */

/** @type {View} */
export function view(root) {
  const title = el("h3"),
    map = heatMap();

  return function draw(/** @type {Similarities | null} */ value) {
    if (!value) return fill(root);
    const { labels, cosine } = value,
      rows = labels.map((text, index) => `${index + 1} ${text}`);
    title.textContent = value.title;
    if (!title.isConnected) fill(root, title, map.element);
    map.draw({
      rows,
      columns: labels.map((_, index) => `${index + 1}`),
      values: cosine.flat(),
      measure: "1 = same direction, 0 = perpendicular",
      ticks: [-1, -0.5, 0, 0.5, 1],
      largest: 44,
      letters: 36,
      hint: "Point at a cell to read how similar the two vectors are.",
      label: `${value.title}; the arrow keys go from cell to cell`,
      describe: (i, j) => [el("bdi", rows[i]), " and ", el("bdi", rows[j]), `: ${cosine[i][j].toFixed(3)}`],
    });
  };
}
