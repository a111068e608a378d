// How similar the vectors of one word are in different sentences: a map of cosine similarities.

import { el } from "./parts/elements.js";
import { heatMap } from "./parts/heat_map.js";

const HINT = "Point at a cell to read how similar the two vectors are.";

/** @typedef {{title: string, labels: string[], cosine: number[][]}} Similarities */

/** @param {import("./parts/heat_map.js").Colour} colour @param {string} text */
function swatch(colour, text) {
  const dot = el("span", { class: "balcony-dot", "aria-hidden": "true" });
  dot.style.setProperty("--dot", `rgb(${colour.join(", ")})`);
  return el("span", { class: "balcony-swatch" }, dot, text);
}

/** @type {View} */
export function similarityMap(root, { options }) {
  const title = el("h3", {});
  const readout = el("p", { class: "balcony-readout", "aria-live": "polite" });
  const map = heatMap(readout);
  const legend = el("div", { class: "balcony-legend" },
    swatch(options.colour, "1: same direction"), swatch(options.opposite, "−1: opposite direction"), "0: perpendicular");
  /** @type {Similarities} */
  let value;
  let width = 0;
  new ResizeObserver(() => { if (value && root.clientWidth && root.clientWidth !== width) show(); }).observe(root);

  function show() {
    width = root.clientWidth;
    const { labels, cosine } = value;
    const rows = labels.map((text, index) => `${index + 1} ${text}`);
    title.textContent = value.title;
    map.draw({
      rows, columns: labels.map((_, index) => `${index + 1}`), values: cosine.flat(), colour: options.colour,
      opposite: options.opposite, alpha: (similarity) => Math.max(0.03, Math.abs(similarity)), room: width || 500,
      largest: 44, letters: width > 520 ? 36 : 22, hint: HINT, label: `${value.title}; the arrow keys go from cell to cell`,
      describe: (i, j) => [el("bdi", {}, rows[i]), " and ", el("bdi", {}, rows[j]), `: ${cosine[i][j].toFixed(3)}`],
    });
  }

  return function draw(/** @type {Similarities | null} */ next) {
    if (!next) { root.replaceChildren(); return; }
    value = next;
    if (!title.isConnected) root.replaceChildren(title, map.element, readout, legend);
    show();
  };
}
