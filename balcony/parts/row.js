// One row of a head, from the query to the weighted values.

import { row, scrolling, table } from "../controls.js";
import { bar, el } from "./elements.js";
import { number } from "./numbers.js";
import { strips } from "./strips.js";

/** @typedef {{tokens: string[], query: Float32Array, key: Float32Array, value: Float32Array}} Head one head's vectors of all tokens, one after the other */

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

/** Two vectors and their products, number by number. @param {[name: string, values: Float32Array][]} factors */
function products(factors) {
  const [[, one], [, other]] = factors,
    found = one.map((value, k) => value * other[k]);
  return strips({
    label: "Their products",
    strips: [...factors, ["Their products", found]],
    describe: (k) => `${number(one[k])} × ${number(other[k])} = ${number(found[k])}`,
    open: null,
  });
}

/**
 * How a number is the sum of products of inputs and weights, plus a bias.
 * @param {string} name @param {Float32Array} inputs @param {Float32Array} weights @param {number} bias
 */
export function summed(name, inputs, weights, bias) {
  const sum = total(inputs.map((input, k) => input * weights[k]));
  return el(
    "section.b-card.b-unfolded",
    el("h3", el("bdi", name)),
    products([
      ["Inputs", inputs],
      ["Weights", weights],
    ]),
    el("p", `Sum of the ${inputs.length} products ${number(sum)} + bias ${number(bias)} = ${number(sum + bias)}.`),
  );
}

/** How token i comes to its weight for token j, with numbers. @param {Head} head @param {number} i @param {number} j */
export function unfolded({ tokens, query: queries, key: keys, value }, i, j) {
  const d = queries.length / tokens.length,
    [from, to] = [tokens[i], tokens[j]],
    query = queries.subarray(i * d, (i + 1) * d),
    key = keys.subarray(j * d, (j + 1) * d),
    { sums, scores, powers, total: all, weights } = attend(query, keys),
    sum = weighted(weights, value, d);
  const rows = tokens.map((token, at) => {
    const numbers = [scores, powers, weights].map((values) => number(values[at]));
    return row([el("bdi", token), ...numbers, bar(weights[at], "mlm")], { "aria-current": at === j ? "true" : null });
  });
  return el(
    "section.b-card.b-unfolded",
    el("h3", el("bdi", from), " → ", el("bdi", to)),
    el(
      "p",
      `Sum of the ${d} products ${number(sums[j])} ÷ √${d} = score ${number(scores[j])}; weight ${number(powers[j])} ÷ ${number(all)} = ${number(weights[j])}.`,
    ),
    products([
      [`Query of ${from}`, query],
      [`Key of ${to}`, key],
    ]),
    scrolling(`The row of ${from}`, table(["Token", "Score", "e^(score − largest)", "Weight", ""], rows)),
    el("p", `The weights sum to ${number(total(weights))}. Their values, each times its weight, are added.`),
    strips({
      label: "Weighted sum of the values",
      strips: [["Weighted sum of the values", sum]],
      describe: () => null,
      open: null,
    }),
  );
}
