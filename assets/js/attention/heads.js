// The settings that the views of attention heads share, so that two models are shown alike.

import { el } from "../parts/elements.js";
import { has } from "../parts/numbers.js";

/**
 * The settings of all views of heads on the page.
 * @typedef {object} Settings
 * @property {[layer: number, head: number]} picked
 * @property {Set<number> | null} active heads that are drawn as lines; null: the picked one
 * @property {"map" | "lines" | "average"} mode
 * @property {number} threshold weights below it are hidden
 * @property {string} filter which lines are drawn; see FILTERS in head_detail.js
 * @property {"heads" | "all" | "rollout"} mean
 * @property {string} fact key of the fact that colours the heads, "" for none
 * @property {boolean} sorted by that fact
 * @property {[layer: number, head: number][]} off heads that are switched off
 */

/** @type {Settings} */
export const FIRST = {
  picked: [0, 0],
  active: null,
  mode: "map",
  threshold: 0,
  filter: "all words",
  mean: "heads",
  fact: "",
  sorted: false,
  off: [],
};
export const settings = { ...FIRST };
const changes = new EventTarget();

/** @param {[layer: number, head: number]} head */
export const isOff = (head) => has(settings.off, head);

/** @param {string} name */
const label = (name) => el("span.b-heads-label", { "aria-hidden": "true" }, name);

/** All heads of some layers. @param {number} first the number of the first layer @param {number} layers @param {number} heads of a layer */
export const headsOf = (first, layers, heads) =>
  Array.from(
    { length: layers * heads },
    (_, k) => /** @type {[layer: number, head: number]} */ ([first + Math.floor(k / heads), k % heads]),
  );

/**
 * The content of a grid of heads, under their numbers and beside their layers. @param {ReturnType<typeof headsOf>} all
 * @param {number} heads of a layer @param {(head: [layer: number, head: number]) => Node} item
 */
export const grid = (all, heads, item) => [
  ["Head", ...Array.from({ length: heads }, (_, head) => `${head + 1}`)].map(label),
  all.map((head) => [head[1] === 0 && label(`Layer ${head[0] + 1}`), item(head)]),
];

/** The head of its button in a grid. @param {HTMLElement} item @returns {[layer: number, head: number]} */
export const headOf = ({ dataset }) => [Number(dataset.layer), Number(dataset.head)];

/** @param {Partial<Settings>} update */
export function change(update) {
  Object.assign(settings, update);
  changes.dispatchEvent(new Event("change"));
}

/**
 * Call back when the settings change, as long as the view is on the page.
 * @param {HTMLElement} root @param {() => void} redraw
 */
export function onChange(root, redraw) {
  function heard() {
    if (root.isConnected) redraw();
    else changes.removeEventListener("change", heard);
  }
  changes.addEventListener("change", heard);
}
