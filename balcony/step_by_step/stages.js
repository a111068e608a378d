// The pictures of the stages: for each its shapes, vectors as strips, tables and maps, with formulas in the model's numbers.

import { attend, unfolded, weighted } from "../parts/row.js";
import { level } from "../colours.js";
import { row, scrolling, table } from "../controls.js";
import { bar, bringIn, button, code, el, fill, note, tools } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { has, headName, number, percent, precise, toggled } from "../parts/numbers.js";
import { ask } from "../frame/question.js";
import { modelMap, POSITIONS, SEGMENTS } from "./map.js";
import { strips } from "../parts/strips.js";

const MOST_VALUES = 6; // of the weighted sum
const PRODUCTS = "x · W[:, {i}] + b[{i}]";

/** @typedef {import("../parts/elements.js").Child} Child */
/** @typedef {any} Steps see steps_value in balcony/step_by_step/tab.py */
/** @typedef {any} Task see task_value in balcony/step_by_step/task_layer.py */
/**
 * @typedef {object} Shown What a stage is drawn from.
 * @property {Steps} value
 * @property {Record<string, Float32Array>} vectors
 * @property {string} title
 * @property {string[]} missing what to do where no word is hidden
 * @property {(names: string[], index: number, word?: string) => void} open shows the products that numbers are sums of
 */
/** @typedef {[word: Node, share: number, ...numbers: string[]]} Listed a row of a table */

/** @typedef {[vector: string, label: string, formula?: string]} Line a vector, and how its numbers come about */
/** @typedef {[list: "off" | "zeroed", at: any]} Part that can be set to zero: the list of the question, and the part there */

/** What the activation functions compute. @type {Record<string, string>} */
const RULES = {
  GELU: "x × Φ(x), with Φ of the normal distribution,",
  GELU_NEW: "x ÷ 2 × (1 + tanh(√(2 ÷ π) × (x + 0.044715 × x³)))",
  RELU: "max(0, x)",
  TANH: "(eˣ − e⁻ˣ) ÷ (eˣ + e⁻ˣ)",
  LINEAR: "x",
};

/**
 * Strips of vectors of the same length. In a formula {name} stands for a vector's number at the chosen place, {i} for that;
 * one with a product · is of vectors as the code names them, and a press on the strips opens its products.
 * @param {Shown} shown @param {Line[]} lines
 */
export function vectorsOf({ vectors, title, open }, lines) {
  const isProduct = (formula) => formula?.includes("·"),
    products = lines.filter(([, , formula]) => isProduct(formula)).map(([vector]) => vector);
  const described = (/** @type {any} */ [vector, label, formula], /** @type {number} */ i) => {
    const text = formula.replace(/\{(\w+)\}/g, (_, name) => (name === "i" ? `${i}` : number(vectors[name][i]))),
      result = ` = ${number(vectors[vector][i])}`;
    return el(
      "div",
      isProduct(formula) ? [el("span", label), ": ", code(text + result)] : `${label}: ${text}${result}`,
    );
  };
  return strips({
    label: title,
    strips: lines.map(([vector, label]) => [label, vectors[vector]]),
    describe: (i) => lines.filter(([, , formula]) => formula).map((line) => described(line, i)),
    open: products.length ? (i) => open(products, i) : null,
  });
}

/** The formula of a LayerNorm. @param {Shown} shown @param {string} input @param {string} norm */
function normed({ vectors, value }, input, norm) {
  const all = Array.from(vectors[input]),
    mean = all.reduce((sum, each) => sum + each, 0) / all.length,
    variance = all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / all.length,
    deviation = number(Math.sqrt(variance + value.eps)),
    numbers = `({${input}} − ${number(mean)}) ÷ ${deviation} × {${norm}Gain} + {${norm}Bias}`;
  return `(x − mean) ÷ √(variance + ε) × gain + bias = ${numbers}`;
}

const square = ({ value: { tokens } }) => `${tokens.length} × ${tokens.length}`;

/** What to do where no word is hidden. @param {Shown} shown @returns {[string, Node]} */
const noWord = ({ value, missing }) => ["", note(missing[+!value.tokens.includes("[MASK]")])];

/** The map of scores or weights of the head, and the pressed cell. @param {Shown} shown @param {boolean} isWeights @returns {Child[]} */
function map({ value: { tokens, segments }, vectors: { queries, keys, values: all }, title }, isWeights) {
  const n = tokens.length,
    d = queries.length / n,
    second = segments.indexOf(1);
  const rows = tokens.map((_, i) => attend(queries.subarray(i * d, (i + 1) * d), keys)),
    values = rows.flatMap(({ scores, weights }) => (isWeights ? weights : scores)),
    most = isWeights ? 1 : Math.max(...values.map(Math.abs)),
    round = Number(most.toFixed(1));
  const cell = el("div"),
    heat = heatMap();
  const formula = (/** @type {number} */ i, /** @type {number} */ j) => {
    const { sums, scores, weights, largest, total } = rows[i];
    return isWeights
      ? `: e^(${number(scores[j])} − ${number(largest)}) ÷ ${number(total)} = ${number(weights[j])}`
      : `: query · key = ${number(sums[j])}; ÷ √${d} = ${number(scores[j])}`;
  };
  heat.draw({
    rows: tokens,
    columns: tokens,
    values,
    level: (each) => level(each / most),
    measure: isWeights ? "Weight" : "Score",
    ticks: isWeights ? undefined : [-round, 0, round],
    border: second > 0 ? second : undefined,
    label: `${title}, ${n} × ${n}; the arrow keys go from cell to cell, Enter unfolds one`,
    press(i, j) {
      fill(cell, unfolded({ tokens, query: queries, key: keys, value: all }, i, j));
      bringIn(cell);
    },
    axes: "A row is the token that attends, a column the token it attends to.",
    hint: "Point at a cell for its formula, click it to unfold it.",
    describe: (i, j) => [el("bdi", tokens[i]), " → ", el("bdi", tokens[j]), formula(i, j)],
  });
  return [heat.element, cell];
}

/** Buttons that set parts to zero, or undo it. @param {Steps} value @param {Part[]} all @param {string} says what stands before them */
function switches({ parts, ...value }, all, says) {
  const named = (list, [layer, part]) => {
    if (list === "off") return headName([layer, part]);
    return part < POSITIONS ? `Layer ${layer + 1}: ${parts[part]}` : parts[part];
  };
  const buttons = all.map(([list, at]) =>
    button(named(list, at), () => ask({ [list]: toggled(value[list], at) }), { "aria-pressed": has(value[list], at) }),
  );
  return tools(el("span", says), buttons);
}

/** Those for some parts of the chosen layer, or for the chosen head. @param {Shown} shown @param {...(number | "head")} parts */
const zeroing = ({ value }, ...parts) =>
  switches(
    value,
    parts.map((part) =>
      part === "head" ? ["off", value.head] : ["zeroed", [part < POSITIONS ? value.head[0] : 0, part]],
    ),
    "Set to zero:",
  );

/** A layer, 0 for the embeddings. @param {number} layer */
export const levelName = (layer) => (layer ? `Layer ${layer}` : "Embeddings");
/** What is carried into a pass. @param {string} kind @param {[number, number]} at @param {string} token whose state it is */
export const carriedName = (kind, at, token) =>
  kind === "state" ? [levelName(at[0]), ": ", el("bdi", token)] : headName(at);

/** What is set to zero in all of the model, as buttons that undo it. @param {Shown} shown */
export function zeros({ value }) {
  const { off, zeroed, carried } = value,
    all = [...off.map((at) => ["off", at]), ...zeroed.map((at) => ["zeroed", at])],
    name = carried && carriedName(carried.kind, carried.at, carried.token),
    putBack = button(name, () => ask({ carried: null }), { "aria-pressed": true });
  return [
    all.length > 0 && switches(value, all, "Set to zero now (a press undoes it):"),
    carried && tools(el("span", "Carried from the other text (a press undoes it):"), putBack),
  ];
}

/** A table of words, each with numbers and a bar. @param {string} label @param {string[]} columns @param {Listed[]} words */
export function listed(label, columns, words) {
  const rows = words.map(([word, share, ...numbers]) => [word, ...numbers, bar(share, "mlm")]);
  return scrolling(label, table([...columns, ""], rows, { class: "b-table is-narrow" }));
}

/** What the pooler makes of the last layer. @param {Shown} shown */
export function pooled(shown) {
  const read = shown.value.pooler === "first" ? "Vector at [CLS]" : "Mean of all vectors",
    formula = "tanh(read · W[:, {i}] + b[{i}])";
  return vectorsOf(shown, [
    ["read", read],
    ["pooled", "Pooler", formula],
  ]);
}

function mapText({ before, carried }) {
  if (carried)
    return "A state of the other text is carried in where ◆ or a frame marks it; what comes after follows from that.";
  return before ? "This is not the whole model." : "This is the whole model.";
}

/** What each stage shows, after its shapes. @type {Record<string, (shown: Shown) => [shape: string, ...parts: Child[]]>} */
export const STAGES = {
  map: (shown) => [mapText(shown.value), modelMap(shown)],

  pieces({ value: { tokens, ids, segments } }) {
    const rows = { Piece: tokens, Id: ids, Position: tokens.map((_, i) => i), Segment: segments };
    const lines = Object.entries(rows).map(([name, cells]) =>
      row([name, ...cells.map((cell) => el("bdi", `${cell}`))], {}, Infinity),
    );
    return [`${tokens.length} tokens`, scrolling("Pieces", table([], lines, { class: "b-table is-narrow" }))];
  },

  embeddings(shown) {
    const { tokens, segments, token } = shown.value;
    return [
      `${shown.vectors.word.length} numbers for each token`,
      zeroing(shown, POSITIONS, SEGMENTS),
      vectorsOf(shown, [
        ["word", `Word ${tokens[token]}`],
        ["position", `Position ${token}`],
        ["segment", `Segment ${segments[token]}`],
        ["sum", "Sum", "{word} + {position} + {segment}"],
        ["embedded", "LayerNorm", normed(shown, "sum", "embeddings")],
      ]),
    ];
  },

  projections: (shown) => [
    `${shown.vectors.input.length} numbers become 3 × ${shown.vectors.context.length}`,
    vectorsOf(shown, [["input", "Input of the layer"]]),
    vectorsOf(shown, [
      ["query", "Query", PRODUCTS],
      ["key", "Key", PRODUCTS],
      ["value", "Value", PRODUCTS],
    ]),
  ],

  scores: (shown) => [`${square(shown)} scores in each head`, ...map(shown, false)],

  weights: (shown) => [`${square(shown)} weights in each head`, ...map(shown, true)],

  context(shown) {
    const { vectors, value } = shown,
      { tokens, head, off } = value,
      d = vectors.context.length,
      { weights } = attend(vectors.query, vectors.keys),
      order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]),
      largest = order.slice(0, MOST_VALUES),
      rest = order.length > MOST_VALUES ? ` + ${order.length - MOST_VALUES} more` : "",
      products = largest.map((j) => `${number(weights[j])} × {value_${j}}`);
    for (const j of largest) vectors[`value_${j}`] = vectors.values.subarray(j * d, (j + 1) * d);
    vectors.weighted = Float32Array.from(weighted(weights, vectors.values, d)); // also where the head is off
    /** @type {Line[]} */
    const lines = largest.map((j) => [`value_${j}`, `${number(weights[j])} × value of ${tokens[j]}`]);
    lines.push(["weighted", "Weighted sum", products.join(" + ") + rest]);
    return [
      `${tokens.length} × ${d} values become ${d} numbers`,
      zeroing(shown, "head"),
      vectorsOf(shown, has(off, head) ? [...lines, ["context", "set to zero"]] : lines),
    ];
  },

  joined(shown) {
    const { heads } = shown.value,
      D = shown.vectors.joined.length;
    return [
      `${heads} heads × ${D / heads} = ${D} numbers`,
      zeroing(shown, "head", 0, 1),
      vectorsOf(shown, [
        ["joined", "Heads joined"],
        ["projected", "Projection", "joined · W[:, {i}] + b[{i}]"],
        ["input_added", "Residual: input of the layer"],
        ["attention_sum", "Sum", "{input_added} + {projected}"],
        ["attended", "LayerNorm", normed(shown, "attention_sum", "attention")],
      ]),
    ];
  },

  "feed-forward"(shown) {
    const { vectors, value } = shown,
      D = vectors.fed.length,
      f = value.activation.toUpperCase();
    return [
      `${D} numbers become ${vectors.inner.length}, and ${D} again`,
      zeroing(shown, 2, 3),
      vectorsOf(shown, [
        ["inner", "Widened", "attended · W[:, {i}] + b[{i}]"],
        ["activated", f, RULES[f]],
      ]),
      vectorsOf(shown, [
        ["attended_added", "Residual: after the attention"],
        ["fed", "Narrowed", "activated · W[:, {i}] + b[{i}]"],
        ["output_sum", "Sum", "{attended_added} + {fed}"],
        ["output", "LayerNorm", normed(shown, "output_sum", "output")],
      ]),
    ];
  },

  layers(shown) {
    const { layers, words, token } = shown.value,
      isAsked = words?.position === token;
    const lines = Array.from({ length: layers + 1 }, (_, l) => {
      const answer = isAsked ? `: ${words.answer} ${percent(words.by_layer[l])}` : "";
      return /** @type {Line} */ ([`after${l}`, levelName(l) + answer]);
    });
    return [`${layers + 1} × ${shown.vectors.after0.length} numbers`, vectorsOf(shown, lines)];
  },

  "scores-of-words"(shown) {
    const { words, activation } = shown.value,
      f = activation.toUpperCase();
    if (!words) return noWord(shown);
    const { top, ids, size } = words;
    const rows = top.map(([word, logit, share], at) => {
      const open = () => shown.open(["logits"], ids[at], `Score of ${word}`);
      return /** @type {Listed} */ ([button(el("bdi", word), open, { class: "b-path" }), share, number(logit)]);
    });
    return [
      `${shown.vectors.last.length} numbers become ${size} scores`,
      vectorsOf(shown, [
        ["last", "Vector at [MASK]"],
        ["word_dense", "Matrix", "last · W[:, {i}] + b[{i}]"],
        ["word_activated", f, RULES[f]],
        ["word_transformed", "LayerNorm", normed(shown, "word_activated", "transform")],
      ]),
      listed("Scores", ["Word", "Score"], rows),
      el("p.b-empty", `The ${top.length} shown of ${size} words. Click one to see its products.`),
    ];
  },

  probabilities(shown) {
    const { words } = shown.value;
    if (!words) return noWord(shown);
    const { top, size, hidden, answer, rank, loss } = words,
      sum = top.reduce((sum, [, , each]) => sum + each, 0),
      rest = number(Math.max(0, 1 - sum));
    const rows = top.map(([word, logit, each]) => {
      const power = Math.exp(logit).toPrecision(6);
      return /** @type {Listed} */ ([el("bdi", word), each, number(logit), power, precise(each)]);
    });
    const rule = `e^score ÷ the sum of e^score over all ${size} words. The other ${size - top.length} words together: ${rest}.`,
      losses = `Loss = −ln ${precise(Math.exp(-loss))} = ${number(loss)}; without knowledge ln ${size} = ${number(Math.log(size))}.`,
      which = hidden ? "The hidden word is " : "The likeliest word is ";
    return [
      `${size} scores become ${size} probabilities`,
      listed("Probabilities", ["Word", "Score", "e^score", "Probability"], rows),
      el("p", rule),
      el("p", which, el("bdi.b-hidden-word", answer), `, rank ${rank}. ${losses}`),
    ];
  },

  "next-sentence"(shown) {
    const { pair, labels } = shown.value;
    if (!pair) return ["", note(shown.missing[0])];
    const { probabilities } = pair,
      [a, b] = pair.logits.map(number),
      rows = labels.map(
        (name, i) => /** @type {Listed} */ ([el("bdi", name), probabilities[i], [a, b][i], number(probabilities[i])]),
      );
    return [
      `${shown.vectors.read.length} numbers become 2`,
      pooled(shown),
      listed("Next sentence", ["Answer", "Score", "Probability"], rows),
      el("p", `P(${labels[0]}) = e^${a} ÷ (e^${a} + e^${b}) = ${number(probabilities[0])}`),
    ];
  },
};
