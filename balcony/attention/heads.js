// The settings that the views of attention heads share, so that two models are shown alike.

import { el } from "../parts/elements.js";
import { has } from "../parts/numbers.js";
import { announce, on } from "../frame/page.js";

/** @typedef {[layer: number, head: number]} Head counted from 0 */

/** The settings of all views of heads, as they are at first. */
export const FIRST = {
  picked: /** @type {Head} */ ([0, 0]),
  active: /** @type {number[] | null} */ (null), // heads that are drawn as lines; null: the picked one
  mode: "map", // or "lines" or "average"
  threshold: 0, // weights below it are hidden
  filter: "all words", // which lines are drawn; see FILTERS in head_detail.js
  mean: "heads", // or "all" or "rollout"
  fact: "", // key of the fact that colours the heads, "" for none
  sorted: false, // by that fact
  off: /** @type {Head[]} */ ([]), // heads that are switched off
};
export const settings = { ...FIRST };

/** @param {Head} head */
export const isOff = (head) => has(settings.off, head);

/** @param {string} name */
const label = (name) => el("span.b-heads-label", { "aria-hidden": "true" }, name);

/** All heads of some layers. @param {number} first the number of the first layer @param {number} layers @param {number} heads of a layer */
export const headsOf = (first, layers, heads) =>
  Array.from({ length: layers * heads }, (_, k) => /** @type {Head} */ ([first + Math.floor(k / heads), k % heads]));

/**
 * The content of a grid of heads, under their numbers and beside their layers. @param {Head[]} all
 * @param {number} heads of a layer @param {(head: Head) => Node} item
 */
export const grid = (all, heads, item) => [
  ["Head", ...Array.from({ length: heads }, (_, head) => `${head + 1}`)].map(label),
  all.map((head) => [head[1] === 0 && label(`Layer ${head[0] + 1}`), item(head)]),
];

/** The head of its button in a grid. @param {HTMLElement} item @returns {Head} */
export const headOf = ({ dataset }) => [Number(dataset.layer), Number(dataset.head)];

/** @param {Partial<typeof FIRST>} update */
export function change(update) {
  Object.assign(settings, update);
  announce("heads", null);
}

/** Call back when the settings change. @param {() => void} redraw */
export const onChange = (redraw) => on("heads", redraw);
