// One row of a head, from the query to the weighted values.

import { row, scrolling, table } from "../controls.js";
import { bar, el, svg } from "./elements.js";
import { number } from "./numbers.js";

/**
 * @typedef {object} Head One head's vectors of all tokens, one after the other.
 * @property {string[]} tokens
 * @property {Float32Array} query
 * @property {Float32Array} key
 * @property {Float32Array} value
 */

const HEIGHT = 64;

/** @param {ArrayLike<number>} values */
const total = (values) => Array.from(values).reduce((sum, value) => sum + value, 0);

/**
 * The attention of one query.
 * @param {ArrayLike<number>} query of d numbers @param {ArrayLike<number>} key d for each token
 */
export function attend(query, key) {
  const d = query.length;
  const sums = Array.from({ length: key.length / d }, (_, j) =>
    total(Array.from(query, (value, k) => value * key[j * d + k])),
  );
  const scores = sums.map((sum) => sum / Math.sqrt(d)),
    largest = Math.max(...scores),
    powers = scores.map((score) => Math.exp(score - largest)),
    all = total(powers);
  return { sums, scores, largest, powers, total: all, weights: powers.map((power) => power / all) };
}

/**
 * The sum of the values of d numbers, each times its token's weight.
 * @param {number[]} weights @param {ArrayLike<number>} value @param {number} d
 */
export const weighted = (weights, value, d) =>
  Array.from({ length: d }, (_, k) => total(weights.map((weight, j) => weight * value[j * d + k])));

/** @param {ArrayLike<number>} values */
const largest = (values) => Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 1e-6);

/**
 * Numbers as bars on both sides of zero; that under the pointer is written out.
 * @param {string} name @param {ArrayLike<number>} values @param {number} [top] the largest size
 */
function bars(name, values, top = largest(values)) {
  const n = values.length,
    text = el("span.b-number"),
    size = { viewBox: `0 0 ${n} ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT };
  const bar = (/** @type {number} */ value, /** @type {number} */ k) => {
    const height = (Math.min(1, Math.abs(value) / top) * HEIGHT) / 2,
      y = value < 0 ? HEIGHT / 2 : HEIGHT / 2 - height;
    return svg("rect", { x: k + 0.1, width: 0.8, y, height, class: value < 0 ? "is-less" : null });
  };
  const zero = svg("path", { class: "b-bars-zero", d: `M0 ${HEIGHT / 2}h${n}` }),
    onpointermove = (/** @type {PointerEvent} */ { clientX }) => {
      const { left, width } = drawing.getBoundingClientRect();
      show(Math.max(0, Math.min(n - 1, Math.floor(((clientX - left) / width) * n))));
    },
    drawing = svg("svg", { ...size, "aria-hidden": "true", onpointermove }, zero, Array.from(values, bar)),
    title = el("span.b-strip-name", el("bdi", { translate: "yes" }, name), text),
    box = el("div.b-bars", { role: "img" }, title, drawing);

  /** @param {number} at */
  function show(at) {
    text.textContent = `[${at}] ${number(values[at])}`;
    box.ariaLabel = `${name}, number ${at + 1} of ${n}: ${number(values[at])}`;
  }
  show(0);
  return box;
}

/**
 * How a number is the sum of products of inputs and weights, plus a bias.
 * @param {string} name @param {Float32Array} inputs @param {Float32Array} weights @param {number} bias
 */
export function summed(name, inputs, weights, bias) {
  const products = inputs.map((input, k) => input * weights[k]),
    sum = total(products);
  return el(
    "section.b-card.b-unfolded",
    el("h3", el("bdi", name)),
    bars("Inputs", inputs),
    bars("Weights", weights),
    bars("Their products", products),
    el("p", `Sum of the ${inputs.length} products ${number(sum)} + bias ${number(bias)} = ${number(sum + bias)}.`),
  );
}

/** How token i comes to its weight for token j, with numbers. @param {Head} head @param {number} i @param {number} j */
export function unfolded({ tokens, query: queries, key: keys, value }, i, j) {
  const d = queries.length / tokens.length,
    [from, to] = [tokens[i], tokens[j]],
    query = queries.subarray(i * d, (i + 1) * d),
    key = keys.subarray(j * d, (j + 1) * d),
    top = largest([...query, ...key]),
    { sums, scores, powers, total: all, weights } = attend(query, keys);
  const rows = tokens.map((token, at) => {
    const numbers = [scores, powers, weights].map((values) => number(values[at]));
    return row([el("bdi", token), ...numbers, bar(weights[at], "mlm")], { "aria-current": at === j ? "true" : null });
  });
  const products = query.map((each, k) => each * key[k]),
    sum = `Sum of the ${d} products ${number(sums[j])} ÷ √${d} = score ${number(scores[j])}; weight ${number(powers[j])} ÷ ${number(all)} = ${number(weights[j])}.`;
  return el(
    "section.b-card.b-unfolded",
    el("h3", el("bdi", from), " → ", el("bdi", to)),
    el("p", sum),
    bars(`Query of ${from}`, query, top),
    bars(`Key of ${to}`, key, top),
    bars("Their products", products),
    scrolling(`The row of ${from}`, table(["Token", "Score", "e^(score − largest)", "Weight", ""], rows)),
    el("p", `The weights sum to ${number(total(weights))}. Their values, each times its weight, are added.`),
    bars("Weighted sum of the values", weighted(weights, value, d), largest(value)),
  );
}
