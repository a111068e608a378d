// Every sentence of a text with every other: which follows which.

import { select } from "../controls.js";
import { draws, el, fill, showError, tools } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { count, percent } from "../parts/numbers.js";
import { ask, onPart, question, replace } from "../frame/question.js";

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
const AXES = "Rows are first sentences, columns second ones.",
  HINT = "Point at a cell to read it, click it to put the pair into the boxes above.";
const LARGEST = 44,
  OF_WINDOW = 1 / 26; // of its height a cell has at most, so that a text of ten sentences is seen whole

/** Whether a pair is judged wrong: null where the text has no label or the model no answer. @param {Matrix} value @param {number} i @param {number} j */
function judgedWrong({ probabilities, pair_labels: labels }, i, j) {
  const p = probabilities[i][j];
  return p === null || labels[i][j] < 0 ? null : p >= 0.5 !== (labels[i][j] === 1);
}

/** The number that orders the rows, largest first; a row without one comes last. @param {Matrix} value @param {number} i */
function rankOf(value, i) {
  const { probabilities, pair_labels: labels } = value;
  if (question.order === "next")
    return Math.max(-1, ...probabilities[i].map((p, j) => (labels[i][j] === 1 ? (p ?? -1) : -1)));
  const judged = labels.map((_, j) => judgedWrong(value, i, j)).filter((wrong) => wrong !== null);
  return judged.length ? judged.filter((wrong) => !wrong).length / judged.length : -1;
}

/** What a cell of the matrix says. @param {Matrix} value @param {number} i @param {number} j */
function described(value, i, j) {
  const { sentences, numbers, probabilities, pair_labels: labels, labels: names } = value,
    p = probabilities[i][j],
    label = [`${names[1]} in the text`, `${names[0]} in the text`][labels[i][j]];
  return [
    `${numbers[i]} `,
    el("bdi", sentences[i]),
    ` → ${numbers[j]} `,
    el("bdi", sentences[j]),
    p === null ? ": longer than the model reads" : ` · P(${names[0]}) ${percent(p)}`,
    p !== null && label && `; ${label}, judged ${judgedWrong(value, i, j) ? "wrong" : "right"}`,
  ];
}

class PairMatrix {
  /** @type {Matrix} */
  value = /** @type {any} */ (null);
  title = el("h3", { dir: "auto" });
  notes = el("div.b-notes");
  extent = el("output");
  map = heatMap();
  // All matrices of the page have the same order of rows, so that two models can be compared.
  order = select("Rows by", Object.entries(ORDERS), (order) => ask({ order }));
  start = el("input", {
    type: "range",
    min: 0,
    step: 1,
    "aria-label": "Where the window of sentences begins",
    oninput: () => this.showExtent(),
    onchange: () => ask({ start: Number(this.start.value) }),
  });
  moving = el("label", this.start, " ", this.extent);

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    const choices = tools(el("label", "Rows by ", this.order), this.moving);
    this.panel = el("div.b-matrix", this.title, choices, this.notes, this.map.element);
    onPart(["order", "text", "pair"], () => this.panel.isConnected && this.show());
  }

  /** @param {Matrix & {error?: string} | null} next */
  draw(next) {
    if (!next?.sentences) return showError(this.root, next);
    const { caption, notes, total, size, start, beside } = (this.value = next);
    fill(this.title, caption);
    fill(
      this.notes,
      notes.map((sentence) => el("p", sentence)),
    );
    this.start.max = `${Math.max(0, total - size)}`;
    this.start.value = `${start}`;
    this.moving.hidden = total <= size || Boolean(beside);
    this.showExtent();
    if (!this.panel.isConnected) fill(this.root, this.panel);
    this.show();
  }

  showExtent() {
    const { total, size } = this.value,
      first = Number(this.start.value);
    this.extent.textContent = `sentences ${first + 1} to ${Math.min(total, first + size)} of ${count(total)}`;
  }

  show() {
    const { value } = this,
      { sentences, numbers, probabilities, pair_labels: labels, labels: names } = value,
      rows = sentences.map((_, i) => i);
    this.order.value = question.order;
    if (["next", "right"].includes(question.order)) rows.sort((a, b) => rankOf(value, b) - rankOf(value, a));
    const here = [rows.indexOf(sentences.indexOf(question.text)), sentences.indexOf(question.pair)];
    this.map.draw({
      rows: rows.map((i) => `${numbers[i]} ${sentences[i]}`),
      columns: numbers.map(String),
      values: rows.flatMap((i) => probabilities[i]),
      measure: `P(${names[0]})`,
      ticks: [0, 0.25, 0.5, 0.75, 1],
      get largest() {
        return Math.min(LARGEST, OF_WINDOW * innerHeight);
      },
      letters: 36,
      axes: `${AXES} Outlined: ${names[0]} in the text. Crossed: judged wrong. Framed: the pair above.`,
      hint: HINT,
      describe: (row, j) => described(value, rows[row], j),
      label: `${this.title.textContent}: which follows which; the arrow keys go from cell to cell, Enter puts the pair into the boxes above`,
      outlined: (row, j) => labels[rows[row]][j] === 1,
      crossed: (row, j) => Boolean(judgedWrong(value, rows[row], j)),
      here: here.includes(-1) ? null : /** @type {[number, number]} */ (here),
      press: (row, j) => replace({ text: sentences[rows[row]], pair: sentences[j], hidden: [] }),
    });
  }
}

/** @type {View} */
export const view = (root) => draws(new PairMatrix(root));
