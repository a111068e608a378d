// Whether one sentence follows another.

import { bar, el, note } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { guessFirst } from "../lessons/guess_first.js";

/**
 * @typedef {object} Verdict
 * @property {string} sentence
 * @property {number} probability of what the sentence states
 * @property {number} is_next probability of labels[0]
 * @property {[string, string]} labels
 * @property {boolean | null} follows whether the text has the second sentence after the first, null: not known
 * @property {string[]} notes
 * @property {string} [caption] the model's name where there are two
 * @property {Verdict} [other] of the model to compare with
 * @property {string} [error]
 * @property {string} [hint]
 */

/**
 * Whether the second sentence follows the first: a sentence, a bar and its two ends.
 * @type {View}
 */
export function view(root) {
  /** One model's answer, under its name where there are two. @param {Verdict} value @returns {Node[]} */
  function answer(value) {
    const name = value.caption ? [el("h3", { dir: "auto" }, value.caption)] : [];
    if (value.error) return [...name, note(value.error, true)];
    return [
      ...name,
      el("p", { class: "b-verdict" }, value.sentence, " ", el("strong", {}, percent(value.probability))),
      bar(value.is_next, "nsp"),
      el(
        "p",
        { class: "b-ends" },
        el("span", {}, `${value.labels[1]} ${percent(1 - value.is_next)}`),
        el("span", {}, `${value.labels[0]} ${percent(value.is_next)}`),
      ),
      ...value.notes.map((text) => note(text)),
    ];
  }

  /** @type {Verdict | null} */
  let last = null;
  const game = guessFirst("next-sentence", () => draw(last));

  /** The two answers as buttons. @param {Verdict} value */
  function guessing({ labels, follows, is_next: isNext }) {
    return el(
      "div",
      { class: "b-tools" },
      "Does the second sentence follow the first?",
      ...labels.map((label, k) => {
        const button = el("button", { class: "b-small" }, label);
        button.addEventListener("click", () =>
          game.uncover(follows === null ? [] : [+(follows === !k), +(follows === isNext >= 0.5), 1]),
        );
        return button;
      }),
    );
  }

  function draw(/** @type {Verdict | null} */ value) {
    last = value;
    if (!value) return;
    if (value.error || value.hint) {
      root.replaceChildren(value.error ? note(value.error, true) : el("p", { class: "b-empty" }, value.hint ?? ""));
      return;
    }
    if (game.covers()) {
      root.replaceChildren(game.line, guessing(value));
      return;
    }
    root.replaceChildren(
      game.line,
      ...answer(value),
      ...(value.other ? answer(value.other) : []),
      ...(value.other && !value.other.error
        ? [
            el(
              "p",
              { class: "b-empty" },
              `The two models are ${Math.round(100 * Math.abs(value.is_next - value.other.is_next))} percentage points apart.`,
            ),
          ]
        : []),
    );
  }
  return draw;
}
