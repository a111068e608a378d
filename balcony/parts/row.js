// One row of a head, from the query to the weighted values, computed here so that a bar can be moved.

import { row, scrolling, table } from "../controls.js";
import { bar, button, el, fill, svg } from "../parts/elements.js";
import { number } from "../parts/numbers.js";

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
 * Numbers as bars on both sides of zero. With `move`, a bar follows the pointer and the up and down keys.
 * @param {string} name @param {ArrayLike<number>} values
 * @param {{top?: number, move?: (index: number, value: number) => void, names?: string[]}} [options] the largest size, and the names of the numbers
 */
export function bars(name, values, { top = largest(values), move, names } = {}) {
  const n = values.length,
    text = el("span.b-number"),
    size = { viewBox: `0 0 ${n} ${HEIGHT}`, preserveAspectRatio: "none", height: HEIGHT },
    drawing = svg("svg", { ...size, "aria-hidden": "true" }),
    role = move ? { role: "slider", tabindex: 0, "aria-valuemin": -top, "aria-valuemax": top } : { role: "img" },
    box = el("div.b-bars", role, el("span.b-strip-name", el("bdi", { translate: "yes" }, name), text), drawing);
  let at = 0;
  const show = () => {
    const bar = (/** @type {number} */ value, /** @type {number} */ k) => {
      const height = (Math.min(1, Math.abs(value) / top) * HEIGHT) / 2,
        y = value < 0 ? HEIGHT / 2 : HEIGHT / 2 - height;
      return svg("rect", { x: k + 0.1, width: 0.8, y, height, class: value < 0 ? "is-less" : null });
    };
    fill(drawing, svg("path", { class: "b-bars-zero", d: `M0 ${HEIGHT / 2}h${n}` }), Array.from(values, bar));
    text.textContent = `${names ? names[at] : `[${at}]`} ${number(values[at])}`;
    const words = `${name}, number ${at + 1} of ${n}: ${names?.[at] ?? ""} ${number(values[at])}`;
    box.ariaLabel = move ? `${name}; left and right choose a number, up and down change it` : words;
    if (move) Object.assign(box, { ariaValueNow: `${values[at]}`, ariaValueText: words });
  };
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerdown", (event) => {
    if (move) drawing.setPointerCapture(event.pointerId);
    point(event);
  });
  if (move) box.addEventListener("keydown", type);
  /** @param {PointerEvent} event */
  function point(event) {
    const { left, top: above, width } = drawing.getBoundingClientRect();
    at = Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - left) / width) * n)));
    if (event.buttons) move?.(at, (1 - (2 * (event.clientY - above)) / HEIGHT) * top);
    show();
  }
  /** @param {KeyboardEvent} event */
  function type(event) {
    const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0,
      up = { ArrowUp: 1, ArrowDown: -1 }[event.key] ?? 0;
    if (!along && !up) return;
    event.preventDefault();
    at = Math.max(0, Math.min(n - 1, at + along));
    if (up) move?.(at, values[at] + (up * top) / 20);
    show();
  }
  show();
  return { box, show };
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
    bars("Inputs", inputs).box,
    bars("Weights", weights).box,
    bars("Their products", products).box,
    el("p", `Sum of the ${inputs.length} products ${number(sum)} + bias ${number(bias)} = ${number(sum + bias)}.`),
  );
}

/** How token i comes to its weight for token j, with numbers. @param {Head} head @param {number} i @param {number} j */
export function unfolded(head, i, j) {
  const d = head.query.length / head.tokens.length,
    [from, to] = [head.tokens[i], head.tokens[j]],
    start = head.query.slice(i * d, (i + 1) * d);
  const query = start.slice(),
    keys = head.key.slice(),
    key = keys.subarray(j * d, (j + 1) * d),
    products = new Float32Array(d),
    sum = new Float32Array(d),
    top = 1.2 * largest([...query, ...key]);
  const mover = (/** @type {Float32Array} */ values) => (/** @type {number} */ at, /** @type {number} */ value) => {
    values[at] = Math.max(-top, Math.min(top, value));
    show();
  };
  const pictures = [
    bars(`Query of ${from}`, query, { top, move: mover(query) }),
    bars(`Key of ${to}`, key, { top, move: mover(key) }),
    bars("Their products", products, { top: top * top }),
    bars("Weighted sum of the values", sum, { top: largest(head.value) }),
  ];
  const [line, rest] = [el("p", { "aria-live": "polite" }), el("p")],
    shown = table(["Token", "Score", "e^(score − largest)", "Weight", ""], []);
  const reset = button("Reset", () => {
    query.set(start);
    keys.set(head.key);
    show();
  });

  function show() {
    const { sums, scores, powers, total: all, weights } = attend(query, keys);
    products.set(query.map((value, k) => value * key[k]));
    sum.set(weighted(weights, head.value, d));
    for (const picture of pictures) picture.show();
    line.textContent = `Sum of the ${d} products ${number(sums[j])} ÷ √${d} = score ${number(scores[j])}; weight ${number(powers[j])} ÷ ${number(all)} = ${number(weights[j])}.`;
    fill(
      shown.tBodies[0],
      head.tokens.map((token, at) => {
        const numbers = [scores, powers, weights].map((values) => number(values[at]));
        const cells = [el("bdi", token), ...numbers, bar(weights[at], "mlm")];
        return row(cells, { "aria-current": at === j ? "true" : null });
      }),
    );
    rest.textContent = `The weights sum to ${number(total(weights))}. Their values, each times its weight, are added.`;
  }
  show();
  return el(
    "section.b-card.b-unfolded",
    el("h3", el("bdi", from), " → ", el("bdi", to)),
    el("p.b-empty", "Drag a bar of the query or the key; the row is computed again."),
    line,
    pictures.slice(0, 3).map(({ box }) => box),
    reset,
    scrolling(`The row of ${from}`, shown),
    rest,
    pictures[3].box,
  );
}
