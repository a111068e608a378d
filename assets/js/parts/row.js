// One row of a head, from the query to the weighted values, computed here so that a bar can be moved.

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

/** Numbers from base64 of float32. @param {string} text */
export const floats = (text) => new Float32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

/**
 * The attention of one query.
 * @param {ArrayLike<number>} query of d numbers @param {ArrayLike<number>} key d for each token
 */
export function attend(query, key) {
  const d = query.length;
  const sums = Array.from({ length: key.length / d }, (_, j) =>
    Array.from(query).reduce((sum, value, k) => sum + value * key[j * d + k], 0),
  );
  const scores = sums.map((sum) => sum / Math.sqrt(d)),
    largest = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - largest)),
    total = powers.reduce((sum, power) => sum + power, 0);
  return { sums, scores, largest, powers, total, weights: powers.map((power) => power / total) };
}

/**
 * The sum of the values of d numbers, each times its token's weight.
 * @param {number[]} weights @param {ArrayLike<number>} value @param {number} d
 */
export const weighted = (weights, value, d) =>
  Array.from({ length: d }, (_, k) => weights.reduce((sum, weight, j) => sum + weight * value[j * d + k], 0));

/** @param {ArrayLike<number>} values */
const largest = (values) => Array.from(values).reduce((most, value) => Math.max(most, Math.abs(value)), 1e-6);

/**
 * Numbers as bars on both sides of zero. With `move`, a bar follows the pointer and the up and down keys.
 * @param {string} name @param {ArrayLike<number>} values @param {number} [top] the largest size @param {((index: number, value: number) => void)} [move]
 * @param {string[]} [names] of the numbers
 */
export function bars(name, values, top = largest(values), move, names) {
  const n = values.length,
    drawing = svg("svg", {
      viewBox: `0 0 ${n} ${HEIGHT}`,
      preserveAspectRatio: "none",
      height: HEIGHT,
      "aria-hidden": "true",
    });
  const text = el("span", { class: "b-number" });
  const box = el(
    "div",
    {
      class: "b-bars",
      ...(move ? { role: "slider", tabindex: "0", "aria-valuemin": -top, "aria-valuemax": top } : { role: "img" }),
    },
    el("span", { class: "b-strip-name" }, el("bdi", { translate: "yes" }, name), text),
    drawing,
  );
  let at = 0;
  const show = () => {
    drawing.replaceChildren(
      svg("path", { class: "b-bars-zero", d: `M0 ${HEIGHT / 2}h${n}` }),
      ...Array.from(values, (value, k) => {
        const height = (Math.min(1, Math.abs(value) / top) * HEIGHT) / 2;
        return svg("rect", {
          x: k + 0.1,
          width: 0.8,
          y: value < 0 ? HEIGHT / 2 : HEIGHT / 2 - height,
          height,
          class: value < 0 ? "is-less" : k === at && move ? "is-chosen" : "",
        });
      }),
    );
    text.textContent = `${names ? names[at] : `[${at}]`} ${number(values[at])}`;
    const words = `${name}, number ${at + 1} of ${n}: ${names?.[at] ?? ""} ${number(values[at])}`;
    box.setAttribute("aria-label", move ? `${name}; left and right choose a number, up and down change it` : words);
    if (move) {
      box.setAttribute("aria-valuenow", `${values[at]}`);
      box.setAttribute("aria-valuetext", words);
    }
  };
  /** @param {PointerEvent} event */
  const point = (event) => {
    const { left, top: above, width } = drawing.getBoundingClientRect();
    at = Math.max(0, Math.min(n - 1, Math.floor(((event.clientX - left) / width) * n)));
    if (move && event.buttons) move(at, (1 - (2 * (event.clientY - above)) / HEIGHT) * top);
    show();
  };
  drawing.addEventListener("pointermove", point);
  drawing.addEventListener("pointerdown", (event) => {
    if (move) drawing.setPointerCapture(event.pointerId);
    point(event);
  });
  if (move)
    box.addEventListener("keydown", (event) => {
      const along = { ArrowLeft: -1, ArrowRight: 1 }[event.key],
        up = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!along && !up) return;
      event.preventDefault();
      at = Math.max(0, Math.min(n - 1, at + (along ?? 0)));
      if (up) move(at, values[at] + (up * top) / 20);
      show();
    });
  show();
  return { box, show };
}

/**
 * How a number comes about as the sum of products of inputs and weights, plus a bias.
 * @param {string} name @param {Float32Array} inputs @param {Float32Array} weights @param {number} bias
 */
export function summed(name, inputs, weights, bias) {
  const products = inputs.map((input, k) => input * weights[k]),
    sum = products.reduce((all, each) => all + each, 0);
  return el(
    "section",
    { class: "b-card b-unfolded" },
    el("h3", {}, el("bdi", {}, name)),
    bars("Inputs", inputs).box,
    bars("Weights", weights).box,
    bars("Their products", products).box,
    el("p", {}, `Sum of the ${inputs.length} products ${number(sum)} + bias ${number(bias)} = ${number(sum + bias)}.`),
  );
}

/**
 * How token i comes to its weight for token j, with numbers.
 * @param {Head} head @param {number} i @param {number} j
 */
export function unfolded(head, i, j) {
  const d = head.query.length / head.tokens.length,
    [from, to] = [head.tokens[i], head.tokens[j]];
  const part = (/** @type {Float32Array} */ all, /** @type {number} */ at) => all.slice(at * d, (at + 1) * d);
  const query = part(head.query, i),
    keys = head.key.slice(),
    key = keys.subarray(j * d, (j + 1) * d);
  const products = new Float32Array(d),
    sum = new Float32Array(d),
    top = 1.2 * largest([...query, ...key]);
  const changed = (/** @type {Float32Array} */ values) => (/** @type {number} */ at, /** @type {number} */ value) => {
    values[at] = Math.max(-top, Math.min(top, value));
    show();
  };
  const pictures = [
    bars(`Query of ${from}`, query, top, changed(query)),
    bars(`Key of ${to}`, key, top, changed(key)),
    bars("Their products", products, top * top),
    bars("Weighted sum of the values", sum, largest(head.value)),
  ];
  const line = el("p", { "aria-live": "polite" }),
    rows = el("tbody", {}),
    total = el("p", {});
  const reset = el("button", { class: "b-small-button" }, "Reset");
  reset.addEventListener("click", () => {
    query.set(part(head.query, i));
    keys.set(head.key);
    show();
  });

  function show() {
    const { sums, scores, powers, total: all, weights } = attend(query, keys);
    query.forEach((value, k) => {
      products[k] = value * key[k];
    });
    sum.set(weighted(weights, head.value, d));
    pictures.forEach((picture) => picture.show());
    line.textContent = `Sum of the ${d} products ${number(sums[j])} ÷ √${d} = score ${number(scores[j])}; weight ${number(powers[j])} ÷ ${number(all)} = ${number(weights[j])}.`;
    rows.replaceChildren(
      ...head.tokens.map((token, index) =>
        el(
          "tr",
          { "aria-current": index === j ? "true" : null },
          el("th", { scope: "row" }, el("bdi", {}, token)),
          ...[scores, powers, weights].map((values) => el("td", { class: "b-number" }, number(values[index]))),
          el("td", {}, bar(weights[index], "mlm")),
        ),
      ),
    );
    total.textContent = `The weights sum to ${number(weights.reduce((part, weight) => part + weight, 0))}. Their values, each times its weight, are added.`;
  }
  show();
  return el(
    "section",
    { class: "b-card b-unfolded" },
    el("h3", {}, el("bdi", {}, from), " → ", el("bdi", {}, to)),
    el("p", { class: "b-empty" }, "Drag a bar of the query or the key; the row is computed again."),
    ...pictures.slice(0, 3).map(({ box }) => box),
    line,
    reset,
    el(
      "div",
      { class: "b-scroll", tabindex: "0", role: "region", "aria-label": `The row of ${from}` },
      el(
        "table",
        { class: "b-lens" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Token"),
            ...["Score", "e^(score − largest)", "Weight"].map((name) =>
              el("th", { scope: "col", class: "b-number" }, name),
            ),
            el("td", {}),
          ),
        ),
        rows,
      ),
    ),
    total,
    pictures[3].box,
  );
}
