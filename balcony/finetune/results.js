// What a fine-tuned model answers: about one example in detail, about held-out examples with its mistakes first, and what
// each window of a context proposes.

import { asksFirst, keepingFocus, scrolling, table } from "../controls.js";
import { bar, button, el, fact, fill, judged, note, notes, tools, withTerms } from "../parts/elements.js";
import { exporter } from "../parts/downloads.js";
import { fixed, percent } from "../parts/numbers.js";
import { ask, question } from "../frame/question.js";

/** @import { Child } from "../parts/elements.js" */
/** @import { ExportOptions } from "../parts/downloads.js" */

/** @typedef {[text: string, kind: string][]} Pieces of a text; kind "" between the marked ones */
/** @typedef {{guess?: string, bars?: [name: string, probability: number][], marked?: Pieces}} Answer see prediction_value in balcony/finetune/answers.py */
/** @typedef {{text: string, pair?: string, choices?: string[], label?: string, true?: Pieces}} Labelled see labelled there */
/** @typedef {Answer & Labelled & {right: boolean | null}} Judged right: null for a number */
/** @typedef {{labels: string[], confusion: number[][]}} Confused */
/** @typedef {Confused & {verdict: string, notes: string[], measures: [name: string, value: number][], examples: Judged[]}} Reviewed */
/** @typedef {{error?: string, key?: string, step: number | null, name: string, task: string} & Partial<Reviewed>} Results see results_value there */
/** @typedef {{window: number, start: number, end: number, overlap: number, answer: string | null, first: number, last: number, score: number}} Candidate a token of the window's row is the first one, and one the last */

const MARKED = { f1: "[[F1|f1]]", "matthews correlation": "[[Matthews correlation|matthews correlation]]" };
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

/** A button that puts an example into the boxes above. @param {Labelled} example */
function tryButton({ text: sentence, pair = "", choices }) {
  const attempt = () => {
    ask({ text: sentence, pair, hidden: [], choices: choices ?? null });
    document.getElementById("task-answer")?.scrollIntoView({ block: "nearest" });
  };
  return button("Try", attempt, { "aria-label": `Try: ${sentence}` });
}

/** An example of the task, as a person would answer it. @param {Labelled} example @param {...Child} more below it */
export function sample({ text: sentence, pair, choices, label, true: truth }, ...more) {
  const items = choices?.map((choice) => el("li", el("bdi", choice)));
  return el(
    "li.b-pair",
    el("p", { dir: "auto" }, truth ? text(truth) : el("bdi", sentence)),
    pair && el("p", { dir: "auto" }, el("bdi", pair)),
    items && el("ul.b-choices", items),
    label && el("p", "Label: ", el("b", el("bdi", label))),
    more,
  );
}

/** An example with what the model answers. @param {Judged} example */
function line(example) {
  const { guess, bars, marked, right } = example,
    certain = bars?.length && bars[0][0] === guess ? ` (${percent(bars[0][1])})` : "",
    said = guess === undefined ? marked && !right && text(marked) : [el("bdi", guess), certain],
    verdict = right !== null && judged("b", right, right ? "right" : "wrong");
  const made = sample(
    example,
    said && el("p", { dir: "auto" }, "predicted ", said),
    tools(verdict, tryButton(example)),
  );
  made.dataset.right = `${right}`;
  return made;
}

/** How often examples of each label were predicted as each. @param {Partial<Confused>} results */
function confusionTable({ labels = [], confusion = [] }) {
  const names = labels.map((label) => el("bdi", label)),
    rows = confusion.map((counts, k) => [el("bdi", labels[k]), ...counts.map((count) => `${count}`)]),
    caption = el("caption", "A row is a label, a column what the model predicted.");
  return scrolling(
    "Labels and predictions",
    table(["", ...names], rows, { caption, class: "b-table is-narrow", id: "task-confusion" }),
  );
}

/**
 * How a model does on held-out examples: measures, the confusion matrix, and examples.
 * @param {HTMLElement} root @param {Results} results @param {(run: string) => void} remove
 */
export function showResults(root, results, remove) {
  const { error, key, step, name, verdict, notes: said = [], measures = [], confusion = [], examples } = results;
  if (error || !key) return fill(root, error && note(error, true));
  const show = button("Show this model in all tabs", () => ask({ model: key, step }), {
      class: "b-next",
      id: "task-show",
    }),
    asked = "Remove this model with its curve? It cannot come back.",
    gone = step !== null && asksFirst("Remove", { id: "task-remove" }, asked, () => remove(key)), // Models removes others
    numbers = measures.map(([title, value]) => fact([withTerms(MARKED[title] ?? title), value.toFixed(3)]));
  const reviewed = examples && [
    el("p", { id: "task-verdict" }, verdict),
    el("dl.b-tiles", { id: "task-measures" }, numbers),
    notes(said),
    confusion.length > 0 && confusion.length <= MOST_LABELS && confusionTable(results),
    el("h3", "Mistakes first"),
    el("ol", { id: "task-examples" }, examples.map(line)),
  ];
  keepingFocus(root, () =>
    fill(root, el("h3", { dir: "auto" }, name), tools(question.model !== key && show, gone), reviewed),
  );
}

const CANDIDATES = ["Window", "Tokens of the context", "Overlap", "Candidate", "Tokens", "Score"];

/** The windows of a context and the candidates of each, folded. @param {ExportOptions} options of its button "Save" */
export function windowsPanel(options) {
  const content = el("div"),
    save = el("div", { id: options.id }),
    element = el("details.b-preview-more", { id: options.of }, el("summary", "Windows and candidates"), content, save);
  exporter(save, options);
  return {
    element,
    /** @param {(Candidate & {id: string})[]} [rows] */
    show(rows = []) {
      element.hidden = !rows.length;
      if (!rows.length) return;
      const [{ id }] = rows;
      const lines = rows.map(({ window, start, end, overlap, answer, first, last, score }, k) => {
        const isNew = window !== rows[k - 1]?.window,
          place = isNew ? [`${window}`, `${start} – ${end - 1}`, window > 1 ? `${overlap}` : "–"] : ["", "", ""],
          found = answer === null ? ["–", "–", "–"] : [el("bdi", answer), `${first} – ${last}`, fixed(score, 3)];
        return [...place, ...found];
      });
      fill(
        content,
        el("p", "Question's id", ": ", id ? el("bdi", id) : "none, it was typed"),
        scrolling("Candidates", table(CANDIDATES, lines)),
        el("p", "Tokens of the context are counted from 0; the overlap is what the window before has too."),
        el("p", "The best start and end are chosen among these; the tokens are counted in their window, with [CLS]."),
        el("p.b-empty", "“Save” below has all candidates of each window, and the logits of their ends."),
      );
    },
  };
}
