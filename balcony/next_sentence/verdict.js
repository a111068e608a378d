// Whether one sentence follows another.

import { bar, button, el, fill, note, notes, withTerms } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { guessFirst } from "../lessons/guess_first.js";

/** @typedef {any} Verdict see `judge` in balcony/next_sentence/tab.py */

/** The classes in plain words, and as answers. @type {Record<string, [plain: string, answer: string]>} */
const PLAIN = { IsNext: ["follows ([[IsNext]])", "Yes"], NotNext: ["does not follow ([[IsNext|NotNext]])", "No"] };
/** @param {string} label @param {0 | 1} k */
const plain = (label, k) => PLAIN[label]?.[k] ?? label;

/** A model's answer, under its name where there are two: a sentence, a bar and its two ends. @param {Verdict} value */
const answer = ({ caption, error, sentence, probability, is_next: isNext, labels, notes: texts }) => [
  caption && el("h3", { dir: "auto" }, caption),
  error
    ? note(error, true)
    : [
        el("p.b-verdict", sentence, " ", el("strong", percent(probability))),
        bar(isNext, "nsp"),
        el(
          "p.b-ends",
          [isNext, 1 - isNext].map((each, k) => el("span", withTerms(`${plain(labels[k], 0)} ${percent(each)}`))),
        ),
        notes(texts),
      ],
];

/** @type {View} */
export function view(root, { options }) {
  if (options.beside) return (value) => fill(root, value && answer(value));
  /** @type {Verdict | null} */
  let last = null;
  const game = guessFirst("pair", "next-sentence", () => draw(last));

  /** The two answers as buttons. @param {Verdict} value */
  function guessing({ labels, follows, is_next: isNext }) {
    const buttons = labels.map((label, k) =>
      button(plain(label, 1), () =>
        game.uncover(follows === null ? [] : [+(follows === !k), +(follows === isNext >= 0.5), 1]),
      ),
    );
    return el("div.b-tools", "Does the second sentence follow the first?", buttons);
  }

  /** @param {Verdict | null} value @param {object} [of] the question */
  function draw(value, of) {
    last = value;
    if (!value) return;
    const { error, hint = "" } = value;
    if (error) fill(root, note(error, true));
    else if (hint) fill(root, el("p.b-empty", hint));
    else if (game.covers(of)) fill(root, game.line, guessing(value));
    else fill(root, game.line, answer(value));
  }
  return draw;
}
