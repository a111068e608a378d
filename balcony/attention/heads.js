// What the views of attention heads share. How heads are drawn is a part of the question, so that two models are shown alike.

import { has } from "../parts/numbers.js";
import { ask, onPart, question } from "../frame/question.js";

/** @typedef {[layer: number, head: number]} Head counted from 0 */

const FIRST = {
  active: /** @type {number[] | null} */ (null), // heads that are drawn as lines; null: the chosen one
  mode: "map", // or "lines" or "steps"
  effect: "", // what the heads show instead of their weights, "" for nothing; see head_grid.js
  target: "", // the pattern that is drawn over the steps, "" for that of the first birth
};

/** How all heads are drawn. @returns {typeof FIRST} */
export const drawn = () => ({ ...FIRST, ...question.heads });

/** Draw heads in another way; settings that have their first value are left out. @param {Partial<typeof FIRST>} update */
export function draw(update) {
  const changed = Object.entries({ ...drawn(), ...update }).filter(([key, value]) => value !== FIRST[key]);
  ask({ heads: Object.fromEntries(changed) });
}

/** Choose a head, which is drawn alone then. @param {Head} head @param {Record<string, any>} [others] parts of the question */
export function choose(head, others = {}) {
  const heads = { ...question.heads };
  delete heads.active;
  ask({ head, heads, ...others });
}

/** The chosen head, or the last one of a smaller model. @param {number} layers @param {number} heads of a layer @returns {Head} */
export const nearest = (layers, heads) => [
  Math.min(question.head[0], layers - 1),
  Math.min(question.head[1], heads - 1),
];

/** Call back when heads are drawn in another way. @param {() => void} redraw */
export const onChange = (redraw) => onPart(["head", "heads", "off"], redraw);

export const isOff = (head) => has(question.off, head);

/** All heads of a model. @param {number} layers @param {number} heads of a layer */
export const headsOf = (layers, heads) =>
  Array.from({ length: layers * heads }, (_, k) => /** @type {Head} */ ([Math.floor(k / heads), k % heads]));
