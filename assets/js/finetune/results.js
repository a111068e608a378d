// What a fine-tuned model answers: about one example in detail, and about held-out examples with its mistakes first.

import { bar, el, nodes, note } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { announce } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

/** @typedef {[text: string, kind: string][]} Pieces of a text; kind "" between the marked ones */
/**
 * @typedef {object} Answer See prediction_value in ui/finetune/answers.py.
 * @property {string} [guess]
 * @property {[name: string, probability: number][]} [bars]
 * @property {Pieces} [marked]
 */
/**
 * @typedef {object} LabelledParts
 * @property {string} text
 * @property {string} [pair]
 * @property {string[]} [choices]
 * @property {string} [label]
 * @property {Pieces} [true]
 * @property {boolean | null} right null for a number
 */
/** @typedef {Answer & LabelledParts} Example */
/**
 * @typedef {object} Results See results_value in ui/finetune/answers.py; without a run there are no examples.
 * @property {string} [key]
 * @property {number | null} step
 * @property {string} name
 * @property {string} task
 * @property {string} before key of the shown model, to compare with
 * @property {string} [part]
 * @property {[name: string, value: number][]} measures
 * @property {number} mistakes
 * @property {string[]} labels
 * @property {number[][]} confusion
 * @property {Example[]} examples
 * @property {string} [error]
 */

const COLOURS = ["#1f6fd6", "#a86200", "#0f766e", "#825fcb", "#b42318", "#64748b"];
const MOST_LABELS = 60; // in the picture
/** The kinds that have a colour, in the order of the colours. @type {string[]} */
const kinds = [];

/** @param {Pieces} pieces */
function text(pieces) {
  return pieces.map(([characters, kind]) => {
    if (!kind) return characters;
    if (!kinds.includes(kind)) kinds.push(kind);
    const mark = el("mark", { class: "b-kind" }, characters, el("small", {}, ` ${kind}`));
    mark.style.setProperty("--dot", COLOURS[kinds.indexOf(kind) % COLOURS.length]);
    return mark;
  });
}

/** The answer about one example. @param {Answer} answer */
export function answered({ guess, bars, marked }) {
  return [
    ...(guess === undefined ? [] : [el("p", { class: "b-verdict" }, el("bdi", {}, guess))]),
    ...(marked ? [el("p", { dir: "auto" }, ...text(marked))] : []),
    ...(bars?.length
      ? [
          el(
            "ol",
            {},
            ...bars.map(([name, probability]) =>
              el(
                "li",
                { class: "b-guess" },
                el("bdi", { class: "b-guess-word", title: name }, name),
                bar(probability, "mlm"),
                el("span", { class: "b-number" }, percent(probability)),
              ),
            ),
          ),
        ]
      : []),
  ];
}

/** @param {Example} example */
function line(example) {
  const { pair, choices, label, guess, bars, marked, right } = example;
  const press = el("button", { class: "b-small", "aria-label": `Try: ${example.text}` }, "Try");
  press.addEventListener("click", () => {
    announce("replaced", { text: question.text, pair: question.pair, hidden: question.hidden });
    ask({ text: example.text, pair: pair ?? "", hidden: [], choices: choices ?? null });
  });
  const certain = bars?.length && bars[0][0] === guess ? ` (${percent(bars[0][1])})` : "";
  const said =
    guess === undefined
      ? []
      : [
          right === null ? "predicted " : "",
          el("bdi", {}, guess),
          certain,
          ...(right ? [] : ["; label ", el("b", {}, el("bdi", {}, label ?? ""))]),
        ];
  const sentence = marked && !pair ? text(marked) : [example.text];
  return el(
    "li",
    { class: "b-pair", "data-right": right },
    el("p", { dir: "auto" }, ...sentence),
    ...(pair ? [el("p", { dir: "auto" }, ...(marked ? text(marked) : [pair]))] : []),
    ...(example.true && !right ? [el("p", { dir: "auto" }, "Label: ", ...text(example.true))] : []),
    el(
      "p",
      { class: "b-tools" },
      ...(right === null ? [] : [el("b", { class: right ? null : "b-wrong" }, right ? "✓ right" : "✗ wrong")]),
      el("span", {}, ...said),
      press,
    ),
  );
}

/**
 * How a model does on held-out examples: measures, the confusion matrix as a picture, and examples.
 * @param {HTMLElement} root
 */
export function results(root) {
  const readout = el("p", { class: "b-readout", "aria-live": "polite" });
  const map = heatMap(readout),
    picture = el("div", { id: "task-confusion" }, el("h3", {}, "Labels and predictions"), map.element, readout);
  const measures = el("dl", { class: "b-tiles", id: "task-measures" });
  const head = el("h3", { dir: "auto" }),
    list = el("ol", { id: "task-examples" });
  const show = el("button", { class: "b-next", id: "task-show" }, "Show this model in all tabs");
  const body = el("div", { class: "b-beside" }, el("div", {}, el("h3", {}, "Mistakes first"), list), picture);
  /** @type {Results} */
  let value;
  let width = 0;
  show.addEventListener("click", () => ask({ model: value.key, step: value.step, other: value.before }));
  new ResizeObserver(() => {
    if (value && picture.clientWidth && picture.clientWidth !== width) draw();
  }).observe(picture);

  function draw() {
    const { labels, confusion } = value;
    width = picture.clientWidth;
    picture.hidden = !confusion.length || labels.length > MOST_LABELS;
    if (picture.hidden) return;
    const totals = confusion.map((row) => row.reduce((sum, each) => sum + each, 0));
    map.draw({
      rows: labels,
      columns: labels,
      values: confusion.flatMap((row, i) => row.map((each) => (totals[i] ? each / totals[i] : null))),
      measure: "Fraction of a label's examples",
      ticks: [0, 0.25, 0.5, 0.75, 1],
      room: width || 400,
      largest: 56,
      hint: "A row is a label, a column what the model predicted; point at a cell to read it.",
      label: "Labels and predictions; the arrow keys go from cell to cell",
      describe: (i, j) => [
        el("bdi", {}, labels[i]),
        " predicted as ",
        el("bdi", {}, labels[j]),
        `: ${confusion[i][j]} of ${totals[i]}`,
      ],
      outlined: (i, j) => i === j,
    });
  }

  return {
    /** @param {Results} next */
    show(next) {
      if (next.error || !next.key) {
        root.replaceChildren(...(next.error ? [note(next.error, true)] : []));
        return;
      }
      value = next;
      const isHere = question.model === value.key;
      const isJudged = value.part && value.examples[0]?.right !== null;
      head.replaceChildren(
        ...nodes(value.name),
        isJudged ? `: ${value.mistakes} of ${value.part} wrong` : value.part ? `: ${value.part}` : "",
      );
      root.replaceChildren(head, ...(value.part ? [measures, body] : []), ...(isHere ? [] : [show]));
      if (!value.part) return;
      measures.replaceChildren(
        ...value.measures.map(([name, number]) => el("div", {}, el("dt", {}, name), el("dd", {}, number.toFixed(3)))),
      );
      list.replaceChildren(...value.examples.map(line));
      draw();
    },
  };
}
