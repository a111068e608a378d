// Three examples of the chosen task until a model has learned it, the first one also as it goes into BERT, and where its
// answer is read: Figure 4 of Devlin et al. 2018, drawn from the example. From below: pieces in two segments, the layers,
// their last vectors, and what is read from them.

import { el, fill } from "../parts/elements.js";
import { scrolling } from "../controls.js";
import { rowsOf } from "../step_by_step/map.js";
import { sample } from "./results.js";

/** @import { Child } from "../parts/elements.js" */
/** @typedef {{tokens: string[], second: number}} InputRow second: its first token of segment B */
/** @typedef {[position: number, text: string]} Read what is read where; of choices the right one */
/** @typedef {{task: string, layers: number, pooler: string, rows: InputRow[], of: number, contextFirst: boolean, read: Read[]}} Figure of: windows of the context, of which one is shown; see samples_value in balcony/finetune/answers.py */

const TITLE = "How an example goes in, and where its answer is read";
const MOST = 14; // tokens of a row

/** What the texts of a row are. @param {Figure} figure @param {number} row */
function namesOf({ task, rows, contextFirst }, row) {
  const isPair = rows[row].second < rows[row].tokens.length;
  if (task === "multiple-choice") return ["Text", `Choice ${row + 1}`];
  if (task === "question-answering") return contextFirst ? ["Context", "Question"] : ["Question", "Context"];
  return isPair ? ["Sentence 1", "Sentence 2"] : ["Sentence"];
}

/** What stands in a column, or in more. @param {string} kind @param {number} at @param {Child} content @param {number} [columns] */
function cell(kind, at, content, columns = 1) {
  const made = el(`div.b-input-${kind}`, content);
  made.style.gridColumn = `${at + 1} / span ${columns}`;
  return made;
}

/** @param {Child[]} cells @param {number} columns */
function line(cells, columns) {
  const made = el("div.b-input-line", cells);
  made.style.setProperty("--columns", `${columns}`);
  return made;
}

/** The tokens of a row, and below them what they are. @param {Figure} figure @param {number} number */
function inputs(figure, number) {
  const { tokens, second } = figure.rows[number],
    read = figure.task === "multiple-choice" ? [] : figure.read.map(([at]) => at),
    columns = rowsOf(tokens.length, MOST, [0, second - 1, tokens.length - 1, ...read, second]);
  const pieces = columns.map(({ from, to }, k) => {
    if (to - from > 1) return cell("gap", k, `${to - from} more`);
    return cell(from < second ? "token.is-a" : "token.is-b", k, el("bdi", { title: tokens[from] }, tokens[from]));
  });
  const border = columns.findIndex(({ to }) => to > second),
    ends = border < 0 ? [0, columns.length] : [0, border, columns.length];
  const names = namesOf(figure, number).map((name, k) => {
    return cell(`name.is-${"ab"[k]}`, ends[k], `${name} · segment ${"AB"[k]}`, ends[k + 1] - ends[k]);
  });
  return { columns, parts: [line(pieces, columns.length), line(names, columns.length)] };
}

/** Whether the answer is read from the mean of all vectors, not from that of [CLS]. @param {Figure} figure */
const readsMean = ({ task, pooler }) => pooler !== "first" && (task.startsWith("text-") || task === "multiple-choice");

/** The last vectors of a row, and above them what is read. @param {Figure} figure @param {{from: number, to: number}[]} columns */
function outputs(figure, columns) {
  const { task, read, rows } = figure,
    { length } = columns,
    texts = new Map(read.map(([at]) => [at, read.filter(([other]) => other === at).map(([, text]) => text)]));
  const vectors = columns.map(({ from, to }, k) => {
    if (to - from > 1) return cell("gap", k, "…");
    const name = from ? ["T", el("sub", `${from}`)] : "C";
    return cell(texts.has(from) || readsMean(figure) ? "vector.is-read" : "vector", k, name);
  });
  const first = rows[0].second < rows[0].tokens.length ? "the pair" : "the sentence";
  const said = columns.flatMap(({ from, to }, k) => {
    const found = to - from === 1 && texts.get(from);
    if (!found) return [];
    if (task.startsWith("text-")) {
      const kind = task === "text-regression" ? "Number for" : "Class label of";
      return cell("answer", 0, [`${kind} ${first}: `, el("b", el("bdi", found[0]))], length);
    }
    if (task === "question-answering")
      return cell("answer", k, from ? found.map((each) => el("b", each)) : el("b", "none"));
    return cell("answer", k, el("b", { translate: "no" }, found[0]));
  });
  return [line(said, length), line(vectors, length)];
}

/** A score for each choice. @param {Figure} figure */
function scores({ rows, read: [[right, text]] }) {
  const cells = rows.map((_, k) => {
    return cell(k === right ? "vector.is-read" : "vector", k, ["C", el("sub", `${k + 1}`), " → ", "score"]);
  });
  const said = cell("answer", 0, ["Softmax over the scores chooses: ", el("b", el("bdi", text))], rows.length);
  return [line([said], rows.length), line(cells, rows.length)];
}

/** In words. @param {Figure} figure */
function caption(figure) {
  const { task, rows, of, read } = figure,
    [[at, text]] = read,
    vector = readsMean(figure) ? "the mean of all last vectors" : "C, the last vector of [CLS]",
    windows = of > 1 && ` The context is longer than the model reads; this is one of its ${of} windows.`;
  if (task === "multiple-choice")
    return ["Each choice goes in with the same text and gets one score. ", `The score is read from ${vector}.`];
  if (task === "token-classification") return "A tag is read from the vector of each word's first piece.";
  if (task.startsWith("text-")) return `${text} is read from ${vector}.`;
  const { tokens } = rows[0];
  if (!at) return ["No part of this context answers: start and end are read at [CLS].", windows];
  return [`The answer starts at ${tokens[at]} and ends at ${tokens[read[1][0]]}.`, windows];
}

/** @param {Figure} figure */
function inputFigure(figure) {
  const said = figure.rows.map(({ tokens }) => `The model reads ${tokens.join(" ")}.`).join(" "),
    rows = figure.rows.map((_, k) => inputs(figure, k)),
    answers = figure.task === "multiple-choice" ? scores(figure) : outputs(figure, rows[0].columns),
    model = el("div.b-input-model", `BERT · ${figure.layers} layers`),
    picture = el("div", { role: "img", "aria-label": said }, answers, model, ...rows.map((row) => row.parts));
  return el("figure.b-input", scrolling(TITLE, picture), el("figcaption", caption(figure)));
}

/** @type {View} */
export const view =
  (root) => (/** @type {{figure?: Figure, examples: import("./results.js").Labelled[]} | null} */ value) => {
    const { figure, examples = [] } = value ?? {};
    fill(
      root,
      figure && [
        el("h3", TITLE),
        inputFigure(figure),
        el("h3", "Three examples of the task"),
        el(
          "ol",
          examples.map((each) => sample(each)),
        ),
      ],
    );
  };
