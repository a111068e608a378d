// What each word contributes to a guess by five methods, and their trial: words are hidden in the order of each.

import { colour, tint } from "../colours.js";
import { scrolling, select, table } from "../controls.js";
import { latest, orError } from "../frame/page.js";
import { partsOf } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { button, dot, el, fill, note, plain, sized, tools, withTerms } from "../parts/elements.js";
import { axisOf, layoutOf, newChart } from "../parts/figures.js";
import { fixed, percent, signed } from "../parts/numbers.js";

/** A guess explained, with a share for each of METHODS. left: of the sum of integrated gradients. @typedef {{kind: "explained", answer: string, log_probability: number, hidden: number, left: number, steps: number, words: {word: string, shares: number[]}[], others: number[], correlations: (number | null)[][]}} Explained */
/** @import { Child } from "../parts/elements.js" */
/** @typedef {{counts: number[], curves: number[][], chance: number[][], slower: number[], deviations: (number | null)[], error?: string}} Trial */
/** Deviations of each method in each sentence of the text. key: of the model. @typedef {{key: string, rows: (number | null)[][], isBusy?: boolean, error?: string}} OfText */

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
const FEW_WORDS = "With so few words, some random order is often as good as the best one.",
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

/** @returns what draws the shares below a list of what they are sorted by, which stays chosen */
function sortable() {
  let sort = 0;
  const list = el("div"),
    choices = /** @type {[number, string][]} */ ([[-1, "The text"], ...NAMES.entries()]);
  return (/** @type {Explained} */ value) => {
    const draw = (/** @type {string | number} */ chosen) => fill(list, shares(value, (sort = Number(chosen)))),
      choose = select("Sorted by", choices, draw);
    choose.value = `${sort}`;
    draw(sort);
    return [el("label", "Sorted by ", choose), list];
  };
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

/** How the methods do: on the shown guess, and in the mean of sentences. @param {Trial | null} trial @param {OfText} text */
function trialTable(trial, { rows }) {
  const n = rows.length,
    means = METHODS.map((_, k) => meanOf(rows.flatMap((row) => row[k] ?? [])));
  const lines = METHODS.map(({ name, hue, isDotted }, k) => [
    el("span.b-swatch", dot(`var(--b-${hue})`, isDotted), name),
    trial ? `${trial.slower[k]} of ${trial.chance.length}` : "–",
    ahead(trial?.deviations[k]),
    ...(n ? [`${ahead(means[k].mean)} ± ${ahead(means[k].error).slice(1)}`] : []),
  ]);
  const head = ["", "Falls faster than", "Ahead", ...(n ? [`Ahead, mean of ${n} sentences`] : [])];
  return [wide("The trial", head, lines), n >= FEWEST && verdict(n, (k) => means[k].isBetter)];
}

const waiting = () => el("p.b-empty", { role: "status" }, "The trial is on …");

/** A view of explanations, which asks for their trials. @returns what draws a value, and the question of a new one */
export function explanations() {
  let trial = /** @type {Trial | null} */ (null), // of the shown guess
    text = /** @type {OfText} */ ({ key: "", rows: [] });
  const sorted = sortable(),
    box = el("div.b-chart.is-low"),
    verdicts = el("div", { "aria-live": "polite" }),
    judgement = el("div.b-judgement"),
    chart = newChart(box, () => figure(/** @type {Trial} */ (trial)));

  const judge = latest(async (/** @type {string} */ asked) => {
    const found = partsOf(OF_GUESS) === asked && (await orError(answer("tried")));
    if (!found || partsOf(OF_GUESS) !== asked) return;
    const { error, slower, chance } = found;
    fill(verdicts, error ? note(error, true) : verdict(0, (k) => slower[k] === chance.length));
    trial = error ? null : found;
    show();
    if (trial) await chart.show();
  });

  async function tryText() {
    const { key } = text,
      tried = (text = { key, rows: [], isBusy: true });
    show();
    const found = await orError(answer("tried-on-text"));
    if (text !== tried) return; // of another model
    text = { key, rows: [], ...found };
    show();
  }

  /** The trial, as far as it is known. */
  function show() {
    const { rows, error, isBusy } = text,
      press = isBusy ? waiting() : button("Try 20 sentences of the text", tryText, { "data-key": "text" });
    fill(
      judgement,
      trialTable(trial, text),
      !rows.length && tools(press),
      error && note(error, true),
      trial && trial.counts.length <= FEWEST && note(FEW_WORDS),
      el("p.b-empty", CHANCE),
    );
  }

  return function draw(/** @type {Explained} */ value, /** @type {any} */ of) {
    if (of) {
      trial = null;
      fill(verdicts, waiting());
      const key = partsOf(OF_TEXT, of);
      if (text.key !== key) text = { key, rows: [] };
      judge(partsOf(OF_GUESS, of)).catch(console.warn);
    }
    show();
    return [
      explainedLine(value),
      verdicts,
      sorted(value),
      el("h3", "The trial"),
      el("p.b-empty", withTerms(TRIAL)),
      box,
      judgement,
      correlations(value),
      completeness(value),
    ];
  };
}
