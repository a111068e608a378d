// The words of a sentence as buttons: press one to mask it.

import { el, roam } from "../parts/elements.js";

export function tokenPicker(root, { trigger, setValue }) {
  let value = null;

  function pick(picked) {
    value = { ...value, picked };
    setValue(value);
    paint();
    trigger("input");
  }

  function toggle(index) {
    const picked = new Set(value.picked);
    if (!picked.delete(index)) picked.add(index);
    pick([...picked].sort((a, b) => a - b));
  }

  /** A word, its pieces told apart by a thin line; a word that the model lacks is dotted. */
  function button(word, index) {
    const cuts = value.cuts[index];
    const pieces = cuts.map((cut, i) => el("span", { class: "balcony-piece" }, word.slice(cut, cuts[i + 1])));
    const known = value.known[index];
    const item = el("button", { type: "button", class: known ? "balcony-word" : "balcony-word is-unknown", dir: "auto",
      title: known ? null : "The model never learned this word" }, ...pieces);
    // The second click of a double click.
    item.addEventListener("click", (event) => (event.detail === 2 ? pick([index]) : toggle(index)));
    return item;
  }

  function paint() {
    const masked = new Set(value.picked);
    root.querySelectorAll("button").forEach((item, index) => item.setAttribute("aria-pressed", masked.has(index)));
  }

  return function draw(next) {
    // The same words keep their buttons, and with them the keyboard's place.
    const shape = ({ words, cuts, known, second }) => JSON.stringify([words, cuts, known, second]);
    const same = value && next && shape(value) === shape(next);
    value = next;
    if (!value || !value.words.length) {
      root.replaceChildren(el("p", { class: "balcony-empty" }, "The words of the sentence appear here."));
      value = null;
      return;
    }
    if (!same) {
      const buttons = value.words.map(button);
      const lines = [buttons.slice(0, value.second), buttons.slice(value.second)].filter((line) => line.length);
      const group = el("div", { role: "group", "aria-label": "Words to mask" },
        ...lines.map((line) => el("div", { class: "balcony-words", dir: "auto" }, ...line)));
      roam(group);
      root.replaceChildren(group);
    }
    paint();
  };
}
