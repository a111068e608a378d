// Attention from the words of one sentence to those of the other.

import { level } from "../colours.js";
import { options, select } from "../controls.js";
import { el, fill, showError, tools } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { ask, question } from "../frame/question.js";

/** @typedef {[layer: number, head: number] | null} Head null: the mean of all */
/** @typedef {{rows: string[], columns: string[], weights: number[][], head: Head, choices: [Head, text: string][], note: string}} Across */

/** @param {Head} head */
const keyOf = (head) => (head ? head.join(".") : "mean");

/** @type {View} */
export function view(root) {
  /** @type {Across} */
  let value;
  const heads = select("Attention of", [], () => ask({ across: value.choices[heads.selectedIndex][0] })),
    summary = el("p.b-empty"),
    choice = tools(el("label", "Attention of ", heads)),
    title = el("h3"),
    map = heatMap();

  return function draw(/** @type {Across & {error?: string} | null} */ next) {
    if (!next?.rows) return showError(root, next);
    value = next;
    const { rows, columns, weights, choices, head } = value;
    options(
      heads,
      choices.map(([each, text]) => [keyOf(each), text]),
      keyOf(question.across),
    );
    if (keyOf(question.across) !== heads.value) heads.value = keyOf(head);
    title.textContent = `From the first sentence to the second: ${heads.selectedOptions[0]?.text}`;
    summary.textContent = value.note;
    if (!choice.isConnected) fill(root, title, choice, map.element, summary);
    map.draw({
      rows,
      columns,
      values: weights.flat(),
      measure: "Weight",
      level,
      largest: 44,
      axes: "A row is [CLS] or a word of the first sentence, a column a word of the second.",
      hint: "Point at a cell to read how much its row attends to its column.",
      label: "Attention of the first sentence to the second; the arrow keys go from cell to cell",
      describe: (i, j) => [el("bdi", rows[i]), " → ", el("bdi", columns[j]), `: ${weights[i][j].toFixed(3)}`],
    });
  };
}
