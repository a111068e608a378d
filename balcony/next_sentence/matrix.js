// Every sentence of a text with every other: which follows which.

import { el, fill, showError } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { ask, onPart, question } from "../frame/question.js";

/** @typedef {any} Matrix see `matrix_value` in balcony/next_sentence/tab.py */

const AXES = "Rows are first sentences, columns second ones.",
  HINT = "Point at a cell to read it, click it to put the pair into the boxes above.";

/** Whether a pair is judged wrong: null where the text has no label or the model no answer. @param {Matrix} value @param {number} i @param {number} j */
function judgedWrong({ probabilities, pair_labels: labels }, i, j) {
  const p = probabilities[i][j];
  return p === null || labels[i][j] < 0 ? null : p >= 0.5 !== (labels[i][j] === 1);
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

/** @type {View} */
export function view(root) {
  /** @type {Matrix} */
  let value;
  const title = el("h3", { dir: "auto" }),
    notes = el("div.b-notes"),
    map = heatMap();
  onPart(["text", "pair"], () => title.isConnected && show());

  function show() {
    const { sentences, numbers, probabilities, pair_labels: labels, labels: names } = value,
      here = [sentences.indexOf(question.text), sentences.indexOf(question.pair)];
    map.draw({
      rows: sentences.map((sentence, i) => `${numbers[i]} ${sentence}`),
      columns: numbers.map(String),
      values: probabilities.flat(),
      measure: `P(${names[0]})`,
      ticks: [0, 0.25, 0.5, 0.75, 1],
      get largest() {
        return Math.min(44, innerHeight / 26); // so that a text of ten sentences is seen whole
      },
      letters: 36,
      axes: `${AXES} Outlined: ${names[0]} in the text. Crossed: judged wrong. Framed: the pair above.`,
      hint: HINT,
      describe: (i, j) => described(value, i, j),
      label: `${value.caption}: which follows which; the arrow keys go from cell to cell, Enter puts the pair into the boxes above`,
      outlined: (i, j) => labels[i][j] === 1,
      crossed: (i, j) => Boolean(judgedWrong(value, i, j)),
      here: here.includes(-1) ? null : /** @type {[number, number]} */ (here),
      press: (i, j) => ask({ text: sentences[i], pair: sentences[j], hidden: [] }),
    });
  }

  return function draw(/** @type {Matrix & {error?: string} | null} */ next) {
    if (!next?.sentences) return showError(root, next);
    value = next;
    fill(title, value.caption);
    fill(
      notes,
      value.notes.map((sentence) => el("p", sentence)),
    );
    if (!title.isConnected) fill(root, title, notes, map.element);
    show();
  };
}
