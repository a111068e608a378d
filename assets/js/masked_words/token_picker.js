// The words of a sentence as buttons: press one to mask it.

import { direction, el, roam } from "../parts/elements.js";

/**
 * @typedef {object} Words What the picker shows.
 * @property {string[]} words
 * @property {number[][]} cuts where each word's pieces begin
 * @property {boolean[]} known whether the vocabulary has the word
 * @property {number} second index of the second sentence's first word
 * @property {number[]} picked indices of the masked words
 */

/** @type {View} */
export function tokenPicker(root, { trigger, setValue }) {
  /** @type {Words} */
  let value;

  /** @param {number[]} picked */
  function pick(picked) {
    value = { ...value, picked };
    setValue(value);
    paint();
    trigger("input");
  }

  /** @param {number} index */
  function toggle(index) {
    const picked = new Set(value.picked);
    if (!picked.delete(index)) picked.add(index);
    pick([...picked].sort((a, b) => a - b));
  }

  /**
   * A word, with a thin line between its pieces; one that the vocabulary lacks is dotted.
   * @param {string} word @param {number} index
   */
  function button(word, index) {
    const cuts = value.cuts[index];
    const pieces = cuts.map((cut, i) => el("span", { class: "balcony-piece" }, word.slice(cut, cuts[i + 1])));
    const known = value.known[index];
    const item = el("button", { type: "button", class: known ? "balcony-word" : "balcony-word is-unknown", dir: "auto",
      title: known ? null : "The model never learned this word" }, ...pieces);
    // The second click of a double click picks this word alone.
    item.addEventListener("click", (event) => (event.detail === 2 ? pick([index]) : toggle(index)));
    return item;
  }

  function paint() {
    const masked = new Set(value.picked);
    root.querySelectorAll("button").forEach((item, index) => item.setAttribute("aria-pressed", `${masked.has(index)}`));
  }

  /** @param {Words} shown */
  const shape = ({ words, cuts, known, second }) => JSON.stringify([words, cuts, known, second]);

  return function draw(/** @type {Words | null} */ next) {
    if (!next || !next.words.length) {
      root.replaceChildren(el("p", { class: "balcony-empty" }, "The words of the sentence appear here."));
      return;
    }
    // The same words keep their buttons, and with them the keyboard focus.
    const same = root.querySelector("button") && shape(value) === shape(next);
    value = next;
    if (!same) {
      const buttons = value.words.map(button);
      const lines = [buttons.slice(0, value.second), buttons.slice(value.second)].filter((line) => line.length);
      const group = el("div", { role: "group", "aria-label": "Words to mask" },
        ...lines.map((line) => el("div", { class: "balcony-words", dir: direction(line.map((item) => item.textContent ?? "")) }, ...line)));
      roam(group);
      root.replaceChildren(group);
    }
    paint();
  };
}
