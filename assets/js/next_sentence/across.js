// Attention from the words of one sentence to those of the other.

import { level } from "../colours.js";
import { el, note } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { ask, question } from "../frame/question.js";

/** @typedef {[layer: number, head: number] | null} Head null: the mean of all */
/**
 * @typedef {object} Across Attention from the first sentence to the second.
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {number[][]} weights
 * @property {Head} head
 * @property {[head: Head, text: string][]} choices
 * @property {string} note
 */

/** @param {Head} head */
const keyOf = (head) => (head ? head.join(".") : "mean");

/** @type {View} */
export function view(root, { options }) {
  const heads = el("select", {}),
    summary = el("p", { class: "b-empty" });
  const readout = el("p", { class: "b-readout", "aria-live": "polite" });
  const tools = el("div", { class: "b-tools", "data-no-picture": "" }, el("label", {}, "Attention of ", heads));
  const title = el("h3", {}),
    map = heatMap(readout);
  /** @type {Across} */
  let value;
  let width = 0;
  heads.addEventListener("change", () => ask({ across: value.choices[heads.selectedIndex][0] }));
  new ResizeObserver(() => {
    if (tools.isConnected && root.clientWidth && root.clientWidth !== width) show();
  }).observe(root);

  function show() {
    width = root.clientWidth;
    const { rows, columns, weights } = value;
    map.draw({
      rows,
      columns,
      values: weights.flat(),
      measure: "Weight",
      level,
      room: width || 500,
      largest: 44,
      hint: options.hint,
      label: "Attention of the first sentence to the second; the arrow keys go from cell to cell",
      describe: (i, j) => [el("bdi", {}, rows[i]), " → ", el("bdi", {}, columns[j]), `: ${weights[i][j].toFixed(3)}`],
    });
  }

  return function draw(/** @type {Across & {error?: string} | null} */ next) {
    if (!next?.rows) {
      root.replaceChildren(...(next?.error ? [note(next.error, true)] : []));
      return;
    }
    value = next;
    const choices = JSON.stringify(value.choices);
    if (heads.dataset.choices !== choices) {
      heads.replaceChildren(...value.choices.map(([head, text]) => el("option", { value: keyOf(head) }, text)));
      heads.dataset.choices = choices;
    }
    if (keyOf(question.across) !== heads.value) heads.value = keyOf(value.head);
    title.textContent = `From the first sentence to the second: ${heads.selectedOptions[0]?.text}`;
    summary.textContent = value.note;
    if (!tools.isConnected) root.replaceChildren(title, tools, map.element, readout, summary);
    show();
  };
}
