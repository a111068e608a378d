// Every sentence of a text with every other: which follows which.

import { el, nodes, note } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { announce, on } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

/**
 * @typedef {object} Matrix Sentences of a window, each with each.
 * @property {string} caption
 * @property {string[]} sentences
 * @property {number[]} numbers their numbers in the text
 * @property {(number | null)[][]} probabilities of labels[0]; null for a pair that is too long
 * @property {number[][]} pair_labels 1 for labels[0], 0 for labels[1], negative where the text has none
 * @property {[string, string]} labels
 * @property {number} start of the window
 * @property {number} size of the window
 * @property {number} total sentences of the text
 * @property {string[]} notes
 * @property {boolean} [beside] whether this is the model to compare with
 */

const ORDERS = { text: "reading order", next: "P of the true next sentence", right: "fraction judged right" };

/** @type {View} */
export function view(root, { options }) {
  const title = el("h3", { dir: "auto" }),
    notes = el("div", { class: "b-notes" });
  const order = el("select", {}, ...Object.entries(ORDERS).map(([key, text]) => el("option", { value: key }, text)));
  const start = el("input", {
    type: "range",
    min: "0",
    step: "1",
    "aria-label": "Where the window of sentences begins",
  });
  const extent = el("output", {}),
    moving = el("label", {}, start, " ", extent);
  const tools = el("div", { class: "b-tools", "data-no-picture": "" }, el("label", {}, "Rows by ", order), moving);
  const readout = el("p", { class: "b-readout", "aria-live": "polite" });
  const legend = el("p", { class: "b-empty" });
  const map = heatMap(readout),
    picture = el("div", {}, tools, map.element, readout);
  const panel = el("div", { class: "b-matrix" }, title, picture, el("div", {}, notes, legend));
  /** @type {Matrix} */
  let value;
  let width = 0;
  // All matrices of the page have the same order of rows, so that two models can be compared.
  order.addEventListener("change", () => ask({ order: order.value }));
  on("question", ({ changed }) => {
    if (changed.has("order") && panel.isConnected) show();
  });
  start.addEventListener("input", showExtent);
  start.addEventListener("change", () => ask({ start: Number(start.value) }));
  new ResizeObserver(() => {
    if (panel.isConnected && picture.clientWidth && picture.clientWidth !== width) show();
  }).observe(picture);

  function showExtent() {
    const first = Number(start.value);
    extent.textContent = `sentences ${first + 1} to ${Math.min(value.total, first + value.size)} of ${value.total.toLocaleString("en")}`;
  }

  /**
   * The number that orders the rows, largest first; a row without one comes last.
   * @param {number} i
   */
  function rankOf(i) {
    /** @type {[probability: number, label: number][]} */
    const cells = value.probabilities[i].flatMap((p, j) => (p === null ? [] : [[p, value.pair_labels[i][j]]]));
    if (question.order === "next") return Math.max(-1, ...cells.filter(([, label]) => label === 1).map(([p]) => p));
    const labelled = cells.filter(([, label]) => label >= 0);
    return labelled.length ? labelled.filter(([p, label]) => p >= 0.5 === (label === 1)).length / labelled.length : -1;
  }

  function rowsInOrder() {
    const rows = value.sentences.map((_, i) => i);
    return !(question.order in ORDERS) || question.order === "text" ? rows : rows.sort((a, b) => rankOf(b) - rankOf(a));
  }

  function show() {
    order.value = question.order;
    width = picture.clientWidth;
    const { sentences, numbers, probabilities, pair_labels: labels, labels: names } = value,
      rows = rowsInOrder();

    /** @param {number} i @param {number} j */
    function isWrong(i, j) {
      const p = probabilities[i][j];
      return p !== null && labels[i][j] >= 0 && p >= 0.5 !== (labels[i][j] === 1);
    }

    /** @param {number} row @param {number} j */
    function describe(row, j) {
      const i = rows[row],
        p = probabilities[i][j];
      const label = [`${names[1]} in the text`, `${names[0]} in the text`][labels[i][j]];
      return [
        `${numbers[i]} `,
        el("bdi", {}, sentences[i]),
        ` → ${numbers[j]} `,
        el("bdi", {}, sentences[j]),
        p === null ? ": longer than the model reads" : `: P(${names[0]}) ${percent(p)}`,
        ...(p !== null && label ? [`; ${label}, judged ${isWrong(i, j) ? "wrong" : "right"}`] : []),
      ];
    }

    map.draw({
      rows: rows.map((i) => `${numbers[i]} ${sentences[i]}`),
      columns: numbers.map(String),
      values: rows.flatMap((i) => probabilities[i]),
      measure: `P(${names[0]})`,
      ticks: [0, 0.25, 0.5, 0.75, 1],
      room: width || 500,
      largest: 44,
      letters: width > 520 ? 36 : 14,
      hint: options.hint,
      describe,
      label: `${title.textContent}: which follows which; the arrow keys go from cell to cell, Enter puts the pair into the boxes above`,
      outlined: (row, j) => labels[rows[row]][j] === 1,
      crossed: (row, j) => isWrong(rows[row], j),
      press: (row, j) => {
        announce("replaced", { text: question.text, pair: question.pair, hidden: question.hidden });
        ask({ text: sentences[rows[row]], pair: sentences[j], hidden: [] });
      },
    });
  }

  return function draw(/** @type {Matrix & {error?: string} | null} */ next) {
    if (!next?.sentences) {
      root.replaceChildren(...(next?.error ? [note(next.error, true)] : []));
      return;
    }
    value = next;
    title.replaceChildren(...nodes(value.caption));
    notes.replaceChildren(...value.notes.map((sentence) => el("p", {}, sentence)));
    const name = value.labels[0];
    legend.textContent = `Outlined: ${name} in the text. Crossed: judged wrong.`;
    start.max = `${Math.max(0, value.total - value.size)}`;
    start.value = `${value.start}`;
    moving.hidden = value.total <= value.size || Boolean(value.beside);
    showExtent();
    if (!panel.isConnected) root.replaceChildren(panel);
    show();
  };
}
