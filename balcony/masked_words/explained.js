// What each word contributes to a guess by five methods, and their trial: words are hidden in the order of each.

import { colour, tint } from "../colours.js";
import { scrolling, select, table } from "../controls.js";
import { latest, orError } from "../frame/page.js";
import { partsOf } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { button, changes, dot, el, fill, note, plain, sized, tools, withTerms } from "../parts/elements.js";
import { axisOf, layoutOf, newChart } from "../parts/figures.js";
import { fixed, percent, signed } from "../parts/numbers.js";

/** A guess explained, with a share for each of METHODS. left: of the sum of integrated gradients. @typedef {{kind: "explained", answer: string, log_probability: number, hidden: number, left: number, steps: number, words: {word: string, shares: number[]}[], others: number[], correlations: (number | null)[][]}} Explained */
/** @import { Child } from "../parts/elements.js" */
/** @typedef {{counts: number[], curves: number[][], chance: number[][], slower: number[], deviations: (number | null)[], error?: string}} Trial */

// In the order of METHODS in bert_core/probes/explanations.py. hue: of the curve, one for each kind of method; the second
// of a kind is dotted.
const METHODS = [
  { term: "[[Left out]]", hue: "curve-mlm" },
  { term: "[[Attention × norm]]", hue: "curve-nsp", isInPercent: true },
  { term: "[[Attention rollout]]", hue: "curve-nsp", isInPercent: true, isDotted: true },
  { term: "[[Integrated gradients]]", hue: "point" },
  { term: "[[Gradient × input]]", hue: "point", isDotted: true },
].map((method) => ({ ...method, name: plain(method.term) }));
const NAMES = METHODS.map(({ name }) => name);
const FEWEST = 5; // words, of which there are many more orders than random ones; and sentences, for a mean
const OF_TEXT = ["model", "step", "newest", "off"],
  OF_GUESS = [...OF_TEXT, "text", "pair", "hidden", "guess", "mask", "view"];
const MOST = 20, // sentences
  FEW_WORDS = "With so few words, some random order is often as good as the best one.",
  TRIAL =
    "Words are hidden one after another, the largest share first. The sooner ln p falls, the better the explanation names what this guess needs ([[deletion]]); grey are 20 random orders.",
  CHANCE =
    "A random order falls faster than 20 others once in 21 times. Ahead: how much lower the mean of ln p is than theirs, in their standard deviations; over sentences with its standard error.";

/** @param {number} share @param {number} method @param {number} largest of the method, which has three digits that count */
const shareText = (share, method, largest) =>
  METHODS[method].isInPercent
    ? `${(100 * share).toFixed(1)}%`
    : signed(share, Math.min(6, Math.max(1, 2 - Math.floor(Math.log10(largest)))));

/** A table whose heads take several lines. @param {string} name @param {Child[]} head @param {Child[][]} lines */
const wide = (name, head, lines) => scrolling(name, table(head, lines, { class: "b-table is-narrow is-wrapped" }));

/** @param {Child} text @param {number} level */
const tinted = (text, level) => tint(el("td.b-number", text), level);

/** The shares, the largest of a method first. @param {Explained} value @param {number} sort of METHODS, -1 for the text's order */
function shares({ words, others }, sort) {
  const largest = METHODS.map((_, k) => Math.max(...words.map(({ shares }) => Math.abs(shares[k])), 1e-9)),
    order = sort < 0 ? words : words.toSorted((one, other) => other.shares[sort] - one.shares[sort]);
  const lines = order.map((one) => {
    const same = words.filter(({ word }) => word === one.word),
      nth = same.length > 1 && el("sup", `${same.indexOf(one) + 1}`);
    return [
      [el("bdi", one.word), nth],
      ...one.shares.map((share, k) => tinted(shareText(share, k, largest[k]), share / largest[k])),
    ];
  });
  const rest = ["[CLS], [SEP], [MASK]", ...others.map((share, k) => (k ? shareText(share, k, largest[k]) : "–"))];
  return wide("Shares of the words", ["Word", ...METHODS.map(({ term }) => withTerms(term))], [...lines, rest]);
}

/** @param {Explained} value */
function correlations({ correlations }) {
  const lines = correlations.map((row, k) => [
    NAMES[k],
    ...row.map((each) => (each === null ? "–" : tinted(fixed(each), each))),
  ]);
  return [
    el("h3", withTerms("[[Rank correlation|Rank correlations]]")),
    wide("Rank correlations", ["", ...NAMES], lines),
  ];
}

/** @param {Explained} value */
const explainedLine = ({ answer, log_probability: log, hidden }) =>
  el(
    "p",
    "Explained: ",
    el("bdi.b-hidden-word", answer),
    `, ln p = ${signed(log, 2)} (${percent(Math.exp(log))}); with all words hidden ln p = ${signed(hidden, 2)} (${percent(Math.exp(hidden))}).`,
  );

/** @param {Explained} value */
function completeness({ log_probability: log, hidden, left, steps }) {
  const rise = log - hidden;
  return el(
    "p.b-empty",
    `Integrated gradients, ${steps} steps from all words hidden: their sum is ${signed(rise + left, 2)}, ln p rises by ${signed(rise, 2)}; the error is ${signed(left, 2)}.`,
  );
}

/** @param {Trial} trial */
function figure({ counts, curves, chance }) {
  const look = { type: "scatter", mode: "lines", hovertemplate: "%{x}: %{y:.2f}<extra></extra>" };
  const random = {
    ...{ ...look, hoverinfo: "skip", hovertemplate: null },
    x: chance.flatMap(() => [...counts, null]),
    y: chance.flatMap((curve) => [...curve, null]),
    line: { color: `${colour("curve-other")}66`, width: 1 },
  };
  const lines = curves.map((y, k) => ({
    ...{ ...look, name: NAMES[k], x: counts, y },
    line: { color: colour(METHODS[k].hue), dash: METHODS[k].isDotted ? "dot" : "solid", width: 2 },
  }));
  const layout = layoutOf({
    margin: { l: sized(52), r: 12, t: 8, b: sized(44) },
    showlegend: false,
    xaxis: axisOf({ title: { text: "Words hidden" }, range: [0, counts.at(-1)] }),
    yaxis: axisOf({ title: { text: "ln p" } }),
  });
  return { data: [random, ...lines], layout };
}

/** Mean and standard error of a method's numbers over sentences, and whether its 95 % interval is above 0. @param {number[]} values */
function meanOf(values) {
  const n = values.length,
    mean = values.reduce((sum, each) => sum + each, 0) / n,
    error = Math.sqrt(values.reduce((sum, each) => sum + (each - mean) ** 2, 0) / (n - 1) / n);
  return { mean, error, isBetter: n >= FEWEST && mean > (1.96 + 3 / (n - 1)) * error }; // close to Student's t
}

/** Which methods are better than chance. @param {number} n sentences, 0 for the shown guess @param {(method: number) => boolean} isBetter */
function verdict(n, isBetter) {
  const named = NAMES.filter((_, k) => isBetter(k)).join(", "),
    here = named ? `Better than chance here: ${named}.` : "No method is better than chance here.",
    over = `Better than chance over ${n} sentences: ${named}.`,
    none = `No method is better than chance over ${n} sentences.`;
  return el("p", el("b", n ? (named ? over : none) : here));
}

/** @param {number | null | undefined} value */
const ahead = (value) => (typeof value === "number" && Number.isFinite(value) ? signed(value, 2) : "–");

/** A view of explanations, which asks for their trials. */
export class Explanations {
  sort = 0; // the method whose largest share comes first
  isBusy = false; // sentences of the text are tried
  ofText = ""; // the model whose text they are of
  fewWords = false;
  /** Of the shown guess. @type {Trial | null} */
  trial = null;
  /** @type {{of: number, rows: (number | null)[][], error?: string}} */
  text = { of: 0, rows: [] };
  sorted = el("div");
  box = el("div.b-chart.is-low");
  verdicts = el("div", { "aria-live": "polite" });
  isNew = changes(); // so that a screen reader says each verdict once
  judgement = el("div.b-judgement");
  chart = newChart(this.box, () => figure(/** @type {Trial} */ (this.trial)));
  judge = latest(async (/** @type {string} */ asked) => {
    if (partsOf(OF_GUESS) !== asked) return;
    const found = await orError(answer("tried", -1));
    if (partsOf(OF_GUESS) !== asked) return;
    this.trial = found;
    this.show();
    if (!found.error) await this.chart.show();
  });

  /** Try one sentence of the text after another, until the question changes. */
  async tryText() {
    const names = [...OF_GUESS, "tab"],
      asked = partsOf(names),
      { text } = this;
    this.isBusy = true;
    do {
      this.show();
      const found = await orError(answer("tried", text.rows.length));
      if (text !== this.text) return; // of another model
      if (found.error) text.error = found.error;
      else [text.of, text.rows] = [found.of, [...text.rows, found.deviations]];
    } while (!text.error && text.rows.length < text.of && partsOf(names) === asked);
    this.isBusy = false;
    this.show();
  }

  /** The trial, as far as it is known. */
  show() {
    const { trial, text, isBusy } = this,
      one = trial && !trial.error ? trial : null,
      n = text.rows.length,
      means = METHODS.map((_, k) => meanOf(text.rows.flatMap((row) => row[k] ?? [])));
    const lines = METHODS.map(({ name, hue, isDotted }, k) => [
      el("span.b-swatch", dot(`var(--b-${hue})`, isDotted), name),
      one ? `${one.slower[k]} of ${one.chance.length}` : "–",
      ahead(one?.deviations[k]),
      ...(n ? [`${ahead(means[k].mean)} ± ${ahead(means[k].error).slice(1)}`] : []),
    ]);
    const head = ["", "Falls faster than", "Ahead", ...(n ? [`Ahead, mean of ${n} sentences`] : [])],
      state = isBusy ? `${n} of ${text.of || MOST} sentences` : `Try ${MOST} sentences of the text`,
      over = n >= FEWEST && !isBusy && verdict(n, (k) => means[k].isBetter),
      press = button(state, () => this.tryText(), { "data-key": "text", disabled: isBusy ? "" : null });
    const said = [
      trial ? trial.error && note(trial.error, true) : el("p.b-empty", "The trial is on …"),
      one && verdict(0, (k) => one.slower[k] === one.chance.length),
    ];
    if (this.isNew(...said.map((part) => part && part.textContent))) fill(this.verdicts, said);
    fill(
      this.judgement,
      wide("The trial", head, lines),
      (!n || n < text.of) && tools(press),
      over,
      text.error && note(text.error, true),
      text.of > 0 && text.of < MOST && el("p.b-empty", `Of the text, ${text.of} sentences are long enough.`),
      one && this.fewWords && note(FEW_WORDS),
      el("p.b-empty", CHANCE),
    );
  }

  /** @param {Explained} value @param {any} of the question, if the answer is new */
  draw(value, of) {
    this.fewWords = value.words.length < FEWEST;
    if (of) {
      this.trial = null;
      const ofText = partsOf(OF_TEXT, of);
      if (this.ofText !== ofText) [this.ofText, this.text, this.isBusy] = [ofText, { of: 0, rows: [] }, false];
      this.judge(partsOf(OF_GUESS, of)).catch(console.warn);
    }
    const choices = /** @type {[number, string][]} */ ([[-1, "The text"], ...NAMES.entries()]),
      list = () => fill(this.sorted, shares(value, this.sort));
    const choose = select("Sorted by", choices, (chosen) => {
      this.sort = Number(chosen);
      list();
    });
    choose.value = `${this.sort}`;
    list();
    this.show();
    return [
      explainedLine(value),
      this.verdicts,
      el("label", "Sorted by ", choose),
      this.sorted,
      el("h3", "The trial"),
      el("p.b-empty", withTerms(TRIAL)),
      this.box,
      this.judgement,
      correlations(value),
      completeness(value),
    ];
  }
}
