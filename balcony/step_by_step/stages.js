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

/** @typedef {(vector: string) => string} Numbers the number of a vector at the chosen place, as text */

/** What the activation functions compute. @type {Record<string, string>} */
const RULES = {
  GELU: "x × Φ(x), with Φ of the normal distribution,",
  GELU_NEW: "x ÷ 2 × (1 + tanh(√(2 ÷ π) × (x + 0.044715 × x³)))",
  RELU: "max(0, x)",
  TANH: "(eˣ − e⁻ˣ) ÷ (eˣ + e⁻ˣ)",
  LINEAR: "x",
};

/** Strips of vectors of the same length. @param {Shown} shown @param {Record<string, string>} labels of vectors @param {string[]} products vectors whose numbers are sums of products, which a press opens @param {(index: number, of: Numbers) => Child} describe */
export const vectorsOf = ({ vectors, title, open }, labels, products, describe) =>
  strips({
    label: title,
    strips: Object.entries(labels).map(([vector, label]) => [label, vectors[vector]]),
    describe: (index) => describe(index, (vector) => number(vectors[vector][index])),
    open: products.length ? (index) => open(products, index) : null,
  });

/** A LayerNorm with the numbers of one cell. @param {Shown} shown @param {string} input @param {string} norm @param {string} output @param {number} index */
function normed({ vectors, value }, input, norm, output, index) {
  const all = Array.from(vectors[input]),
    mean = all.reduce((sum, each) => sum + each, 0) / all.length,
    variance = all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / all.length;
  const [x, gain, bias, result] = [input, `${norm}Gain`, `${norm}Bias`, output].map((name) =>
    number(vectors[name][index]),
  );
  return (
    `LayerNorm: (x − mean) ÷ √(variance + ε) × gain + bias = ` +
    `(${x} − ${number(mean)}) ÷ ${number(Math.sqrt(variance + value.eps))} × ${gain} + ${bias} = ${result}`
  );
}

const square = ({ value: { tokens } }) => `${tokens.length} × ${tokens.length}`;

/** What to do where no word is hidden. @param {Shown} shown @returns {[string, Node]} */
const noWord = ({ value, missing }) => ["", note(missing[+!value.tokens.includes("[MASK]")])];

/** The map of scores or weights of the head, and the pressed cell. @param {Shown} shown @param {boolean} isWeights @returns {Child[]} */
function map({ value, vectors, title }, isWeights) {
  const { tokens, segments } = value,
    { query, key } = vectors,
    n = tokens.length,
    d = query.length / n,
    second = segments.indexOf(1);
  const rows = tokens.map((_, i) => attend(query.subarray(i * d, (i + 1) * d), key)),
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
      fill(cell, unfolded({ tokens, query, key, value: vectors.value }, i, j));
      bringIn(cell);
    },
    axes: "A row is the token that attends, a column the token it attends to.",
    hint: "Point at a cell for its formula, click it to unfold it.",
    describe: (i, j) => [el("bdi", tokens[i]), " → ", el("bdi", tokens[j]), formula(i, j)],
  });
  return [heat.element, cell];
}

/** @typedef {[name: string, list: "off" | "zeroed", part: [number, number]]} Switch */
/** Buttons that set parts to zero. @param {Shown} shown @param {Switch[]} parts @param {string} [says] what stands before them */
function switches({ value }, parts, says = "Set to zero:") {
  const buttons = parts.map(([name, list, part]) =>
    button(name, () => ask({ [list]: toggled(value[list], part) }), { "aria-pressed": has(value[list], part) }),
  );
  return tools(el("span", says), buttons);
}

export const putBack = (name) => button(name, () => ask({ carried: null }), { "aria-pressed": true });

/** A layer, 0 for the embeddings. @param {number} layer */
export const levelName = (layer) => (layer ? `Layer ${layer}` : "Embeddings");
/** What is carried into a pass. @param {string} kind @param {[number, number]} at @param {string} token whose state it is */
export const carriedName = (kind, at, token) =>
  kind === "state" ? [levelName(at[0]), ": ", el("bdi", token)] : headName(at);

/** What is set to zero in all of the model, as buttons that undo it. @param {Shown} shown */
export function zeros(shown) {
  const { off, zeroed, parts, carried } = shown.value,
    heads = off.map((at) => /** @type {Switch} */ ([headName(at), "off", at])),
    named = (/** @type {[number, number]} */ [layer, part]) =>
      part < POSITIONS ? `Layer ${layer + 1}: ${parts[part]}` : parts[part],
    others = zeroed.map((at) => /** @type {Switch} */ ([named(at), "zeroed", at])),
    all = [...heads, ...others];
  return [
    all.length > 0 && switches(shown, all, "Set to zero now (a press undoes it):"),
    carried &&
      tools(
        el("span", "Carried from the other text (a press undoes it):"),
        putBack(carriedName(carried.kind, carried.at, carried.token)),
      ),
  ];
}

/** A table of words, each with numbers and a bar. @param {string} label @param {string[]} columns @param {Listed[]} words */
export function listed(label, columns, words) {
  const rows = words.map(([word, share, ...numbers]) => [word, ...numbers, bar(share, "mlm")]);
  return scrolling(label, table([...columns, ""], rows, { class: "b-table is-narrow" }));
}

/** What the pooler makes of the last layer. @param {Shown} shown */
export function pooled(shown) {
  const read = shown.value.pooler === "first" ? "Vector at [CLS]" : "Mean of all vectors";
  return vectorsOf(shown, { read, pooled: "Pooler" }, ["pooled"], (i, of) =>
    code(`tanh(read · W[:, ${i}] + b[${i}]) = ${of("pooled")}`),
  );
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
    const { tokens, segments, token } = shown.value,
      inputs = { word: `Word ${tokens[token]}`, position: `Position ${token}`, segment: `Segment ${segments[token]}` };
    return [
      `${shown.vectors.word.length} numbers for each token`,
      switches(shown, [
        ["Positions", "zeroed", [0, POSITIONS]],
        ["Segments", "zeroed", [0, SEGMENTS]],
      ]),
      vectorsOf(shown, { ...inputs, sum: "Sum", embedded: "LayerNorm" }, [], (i, of) => {
        const sum = `${of("word")} + ${of("position")} + ${of("segment")} = ${of("sum")}`;
        return `${sum}. ${normed(shown, "sum", "embeddings", "embedded", i)}`;
      }),
    ];
  },

  projections(shown) {
    const { vectors, value } = shown,
      d = vectors.context.length,
      D = vectors.input.length,
      own = { query: "own_query", key: "own_key", value: "own_value" };
    for (const [all, one] of Object.entries(own))
      vectors[one] = vectors[all].subarray(value.token * d, (value.token + 1) * d);
    const labels = { own_query: "Query", own_key: "Key", own_value: "Value" };
    return [
      `${D} numbers become 3 × ${d}`,
      vectorsOf(shown, { input: "Input of the layer" }, [], (i, of) => `x[${i}] = ${of("input")}`),
      vectorsOf(shown, labels, Object.keys(own), (i, of) => {
        const sums = Object.entries(own).map(([all, one]) => `${all}[${i}] = x · W[:, ${i}] + b[${i}] = ${of(one)}`);
        return [code(sums.join("; ")), `: sums of ${D} products each`];
      }),
    ];
  },

  scores: (shown) => [`${square(shown)} scores in each head`, ...map(shown, false)],

  weights: (shown) => [`${square(shown)} weights in each head`, ...map(shown, true)],

  context(shown) {
    const { vectors, value } = shown,
      { token, tokens, head, off } = value,
      d = vectors.context.length,
      { weights } = attend(vectors.query.subarray(token * d, (token + 1) * d), vectors.key),
      sum = weighted(weights, vectors.value, d);
    const order = weights.map((weight, j) => /** @type {const} */ ([weight, j])).sort(([a], [b]) => b - a),
      largest = order.slice(0, MOST_VALUES),
      rest = order.length > MOST_VALUES ? ` + ${order.length - MOST_VALUES} more` : "",
      zero = has(off, head) ? ", set to 0" : "";
    for (const [, j] of largest) vectors[`value_${j}`] = vectors.value.subarray(j * d, (j + 1) * d);
    const values = largest.map(([weight, j]) => [`value_${j}`, `${number(weight)} × value of ${tokens[j]}`]);
    return [
      `${tokens.length} × ${d} values become ${d} numbers`,
      switches(shown, [[`Head ${head[1] + 1}`, "off", head]]),
      vectorsOf(shown, { ...Object.fromEntries(values), context: "Weighted sum" }, [], (i, of) => {
        const products = largest.map(([weight, j]) => `${number(weight)} × ${of(`value_${j}`)}`);
        return `${products.join(" + ")}${rest} = ${number(sum[i])}${zero}`;
      }),
    ];
  },

  joined(shown) {
    const { heads, head } = shown.value,
      D = shown.vectors.joined.length,
      d = D / heads,
      before = { joined: "Heads joined", projected: "Projection", input_added: "Residual: input of the layer" },
      labels = { ...before, attention_sum: "Sum", attended: "LayerNorm" };
    return [
      `${heads} heads × ${d} = ${D} numbers`,
      switches(shown, [
        [`Head ${head[1] + 1}`, "off", head],
        ["Attention", "zeroed", [head[0], 0]],
        ["Residual", "zeroed", [head[0], 1]],
      ]),
      vectorsOf(shown, labels, ["projected"], (i, of) => {
        const own = `Number ${i % d} of head ${Math.floor(i / d) + 1}: ${of("joined")}`,
          projection = code(`joined · W[:, ${i}] + b[${i}] = ${of("projected")}`),
          sum = `Sum: ${of("input_added")} + ${of("projected")} = ${of("attention_sum")}`;
        return [
          `${own}. Projection: `,
          projection,
          `. ${sum}. ${normed(shown, "attention_sum", "attention", "attended", i)}`,
        ];
      }),
    ];
  },

  "feed-forward"(shown) {
    const { vectors, value } = shown,
      [layer] = value.head,
      D = vectors.fed.length,
      f = value.activation.toUpperCase(),
      rule = RULES[f],
      before = { attended_added: "Residual: after the attention", fed: "Narrowed" },
      labels = { ...before, output_sum: "Sum", output: "LayerNorm" };
    return [
      `${D} numbers become ${vectors.inner.length}, and ${D} again`,
      switches(shown, [
        ["Feed-forward", "zeroed", [layer, 2]],
        ["Residual", "zeroed", [layer, 3]],
      ]),
      vectorsOf(shown, { inner: "Widened", activated: f }, ["inner"], (i, of) => {
        const widened = code(`attended · W[:, ${i}] + b[${i}] = ${of("inner")}`);
        return [widened, `; ${f}(x) = ${rule} = ${of("activated")}`];
      }),
      vectorsOf(shown, labels, ["fed"], (i, of) => {
        const sum = `Sum: ${of("attended_added")} + ${of("fed")} = ${of("output_sum")}`;
        return `${sum}. ${normed(shown, "output_sum", "output", "output", i)}`;
      }),
    ];
  },

  layers(shown) {
    const { layers, words: hidden, token } = shown.value,
      words = hidden?.position === token ? hidden : null,
      names = Array.from({ length: layers + 1 }, (_, l) => levelName(l));
    const labels = names.map((name, l) => {
      const answer = words ? `: ${words.answer} ${percent(words.by_layer[l])}` : "";
      return [`after${l}`, name + answer];
    });
    return [
      `${layers + 1} × ${shown.vectors.after0.length} numbers`,
      vectorsOf(shown, Object.fromEntries(labels), [], (i, of) => {
        return names.map((name, l) => `${name}: ${of(`after${l}`)}`).join("; ");
      }),
    ];
  },

  "scores-of-words"(shown) {
    const { words, activation } = shown.value,
      f = activation.toUpperCase();
    if (!words) return noWord(shown);
    const { top, ids, size } = words,
      logits = top.map(([, logit]) => logit),
      least = Math.min(...logits),
      range = Math.max(...logits) - least || 1,
      labels = { last: "Vector at [MASK]", word_dense: "Matrix", word_activated: f, word_transformed: "LayerNorm" };
    const rows = top.map(([word, logit], at) => {
      const open = () => shown.open(["logits"], ids[at], `Score of ${word}`),
        share = 0.05 + (0.95 * (logit - least)) / range;
      return /** @type {Listed} */ ([button(el("bdi", word), open, { class: "b-path" }), share, number(logit)]);
    });
    return [
      `${shown.vectors.last.length} numbers become ${size} scores`,
      vectorsOf(shown, labels, ["word_dense"], (i, of) => {
        const dense = code(`last · W[:, ${i}] + b[${i}] = ${of("word_dense")}; ${f} = ${of("word_activated")}`);
        return [dense, `. ${normed(shown, "word_activated", "transform", "word_transformed", i)}`];
      }),
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
