// What a fine-tuned model answers: about one example in detail, and about held-out examples with its mistakes first.

import { asksFirst, scrolling, table } from "../controls.js";
import { bar, button, changes, el, fact, fill, note, notes, tools, withTerms } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { ask, question } from "../frame/question.js";

/** @typedef {[text: string, kind: string][]} Pieces of a text; kind "" between the marked ones */
/** @typedef {{guess?: string, bars?: [name: string, probability: number][], marked?: Pieces}} Answer see prediction_value in balcony/finetune/answers.py */
/** @typedef {{text: string, pair?: string, choices?: string[], label?: string, true?: Pieces, right: boolean | null}} LabelledParts right: null for a number */
/** @typedef {Answer & LabelledParts} Example */
/**
 * @typedef {object} Results See results_value in balcony/finetune/answers.py; without a run there are no examples.
 * @property {string} [key]
 * @property {number | null} step
 * @property {string} name
 * @property {string} task
 * @property {string} [part]
 * @property {string[]} notes
 * @property {[name: string, value: number][]} measures
 * @property {number} count of examples
 * @property {number} mistakes
 * @property {number} always how many would be right with the most frequent answer for all
 * @property {string[]} labels
 * @property {number[][]} confusion
 * @property {Example[]} examples
 * @property {string} [error]
 */

const MARKED = { f1: "[[F1|f1]]", "matthews correlation": "[[Matthews correlation|matthews correlation]]" };
const JUDGING = "The model answers the examples that it has not learned from …";
/** Colours of kinds in the style sheet, which has each for both themes. */
const COLOURS = ["mlm", "nsp", "strong", "more", "wrong", "muted"];
const MOST_LABELS = 30; // in the table
/** The kinds that have a colour, in the order of the colours. @type {string[]} */
const kinds = [];

/** @param {Pieces} pieces */
const text = (pieces) =>
  pieces.map(([characters, kind]) => {
    if (!kind) return characters;
    if (!kinds.includes(kind)) kinds.push(kind);
    const mark = el("mark.b-kind", characters, el("small", ` ${kind}`));
    mark.style.setProperty("--dot", `var(--b-${COLOURS[kinds.indexOf(kind) % COLOURS.length]})`);
    return mark;
  });

/** The answer about one example. @param {Answer} answer */
export function answered({ guess, bars = [], marked }) {
  const lines = bars.map(([name, probability]) => {
    const word = el("bdi.b-guess-word", { title: name }, name);
    return el("li.b-guess", word, bar(probability, "mlm"), el("span.b-number", percent(probability)));
  });
  return [
    guess !== undefined && el("p.b-verdict", el("bdi", guess)),
    marked && el("p", { dir: "auto" }, text(marked)),
    lines.length > 0 && el("ol", lines),
  ];
}

/** A button that puts an example into the boxes above. @param {LabelledParts} example */
function tryButton({ text: sentence, pair = "", choices }) {
  const attempt = () => {
    ask({ text: sentence, pair, hidden: [], choices: choices ?? null });
    document.getElementById("task-answer")?.scrollIntoView({ block: "nearest" });
  };
  return button("Try", attempt, { "aria-label": `Try: ${sentence}` });
}

/** An example of the task, as a person would answer it. @param {LabelledParts} example */
export function sample(example) {
  const { text: sentence, pair, choices, label, true: truth } = example,
    items = choices?.map((choice) => el("li", el("bdi", choice)));
  return el(
    "li.b-pair",
    el("p", { dir: "auto" }, truth ? text(truth) : el("bdi", sentence)),
    pair && el("p", { dir: "auto" }, el("bdi", pair)),
    items && el("ul.b-choices", items),
    label && el("p", "Label: ", el("b", el("bdi", label))),
  );
}

/** @param {Example} example */
function line(example) {
  const { text: sentence, pair = "", label = "", guess, bars, marked, right, true: truth } = example;
  const certain = bars?.length && bars[0][0] === guess ? ` (${percent(bars[0][1])})` : "";
  const said = guess !== undefined && [
    right === null && "predicted ",
    el("bdi", guess),
    certain,
    !right && ["; label ", el("b", el("bdi", label))],
  ];
  return el(
    "li.b-pair",
    { "data-right": right },
    el("p", { dir: "auto" }, marked && !pair ? text(marked) : sentence),
    pair && el("p", { dir: "auto" }, marked ? text(marked) : pair),
    truth && !right && el("p", { dir: "auto" }, "Label: ", text(truth)),
    el(
      "p.b-tools",
      right !== null && el(right ? "b" : "b.b-wrong", right ? "✓ right" : "✗ wrong"),
      el("span", said),
      tryButton(example),
    ),
  );
}

/** Whether examples are right or wrong: some have nothing to be judged by. @param {Results} results */
const isJudged = ({ part, examples }) => Boolean(part) && examples[0]?.right !== null;

/** How many examples are right, and would be with one answer for all, or how well numbers are predicted; "" without examples. @param {Results} results */
export function verdictOf(results) {
  const { count, mistakes, always, part, measures } = results;
  if (!part) return "";
  if (!isJudged(results)) return `On ${part}: ${measures.map(([name, value]) => `${name} ${value}`).join(", ")}.`;
  const right = `${count - mistakes} of ${part} right.`;
  return `${right} Always giving one and the same answer would be right for ${always}.`;
}

/** How often examples of each label were predicted as each. @param {Results} results */
function confusionTable({ labels, confusion }) {
  const names = labels.map((label) => el("bdi", label)),
    rows = confusion.map((counts, k) => [el("bdi", labels[k]), ...counts.map((count) => `${count}`)]),
    caption = el("caption", "A row is a label, a column what the model predicted.");
  return (
    rows.length > 0 &&
    scrolling("Labels and predictions", table(["", ...names], rows, { caption, class: "b-table is-narrow" }))
  );
}

/**
 * How a model does on held-out examples: measures, the confusion matrix, and examples.
 * @param {HTMLElement} root @param {(run: string) => void} remove
 */
export function results(root, remove) {
  const confused = el("div", { id: "task-confusion" }),
    measures = el("dl.b-tiles", { id: "task-measures" }),
    head = el("h3", { dir: "auto" }),
    order = el("h3"),
    list = el("ol", { id: "task-examples" });
  const isNew = changes(); // drawn again, an open question would close
  /** @type {Results} */
  let value;
  const open = () => ask({ model: value.key, step: value.step });
  const show = button("Show this model in all tabs", open, { class: "b-next", id: "task-show" }),
    asked = "Remove this model with its curve? It cannot come back.",
    gone = asksFirst("Remove", { id: "task-remove" }, asked, () => remove(value.key ?? ""));

  return {
    wait() {
      isNew();
      fill(root, el("p.b-empty", { role: "status" }, JUDGING));
    },
    /** @param {Results} found */
    show(found) {
      if (!isNew(found, question.model)) return;
      const { error, key, part, name, examples, mistakes, labels } = (value = found);
      if (error || !key) return fill(root, error && note(error, true));
      fill(head, name, part && (isJudged(found) ? `: ${mistakes} of ${part} wrong` : `: ${part}`));
      const isRun = value.step !== null; // Models removes another one
      const next = tools(question.model !== key && show, isRun && gone);
      fill(root, head, next, part && [measures, notes(value.notes), confused, order, list]);
      if (!part) return;
      order.textContent = isJudged(found) && !mistakes ? "Examples" : "Mistakes first";
      const numbers = value.measures.map(([name, number]) =>
        fact([withTerms(MARKED[name] ?? name), number.toFixed(3)]),
      );
      fill(measures, numbers);
      fill(list, examples.map(line));
      fill(confused, labels.length <= MOST_LABELS && confusionTable(found));
    },
  };
}
