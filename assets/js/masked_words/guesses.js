// The guesses for the masked words.

import { bar, el, note } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { announce, orError, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { guessFirst } from "../lessons/guess_first.js";

/** @typedef {[token: string, probability: number]} Guess */
/** @typedef {{word: string, error?: string, pieces: string[], probability: number, ranks: number[]}} OwnGuess */
/** @typedef {{word?: string, pieces: {answer: string | null, guesses: Guess[]}[], own?: OwnGuess}} Mask */
/** @typedef {{word: string, here: number, there: number}} Comparison probabilities of a hidden word by two models */
/**
 * @typedef {object} Guesses
 * @property {Mask[]} masks
 * @property {string[]} notes
 * @property {Comparison[]} [comparison] with the other model
 * @property {boolean} [beside] whether this is the model to compare with
 * @property {string} [error]
 * @property {string} [hint]
 * @property {string} [caption]
 */

/**
 * The best guesses for each mask, with a bar and a button that puts a guess into the sentence.
 * @type {View}
 */
export function view(root, { server }) {
  /** Put a guess into the sentence. @param {{mask: number, piece: number}} at @param {string} token */
  async function put({ mask, piece }, token) {
    const { text, pair, hidden } = question;
    const edited = await orError(server.put(visitor.token, { ...question, hidden: hidden ?? [] }, mask, piece, token));
    if (question.text !== text || question.pair !== pair || question.hidden !== hidden) return;
    if (edited.error) {
      root.append(note(edited.error, true));
      return;
    }
    announce("replaced", { text, pair, hidden });
    ask(edited);
  }

  /**
   * @param {Guess} guess @param {boolean} isHidden whether it is the word that was hidden
   * @param {{mask: number, piece: number} | null} mask that the button fills
   */
  function row([token, probability], isHidden, mask) {
    const word = el("bdi", { class: "b-guess-word", title: token }, token);
    const parts = [
      word,
      bar(probability, "mlm"),
      el("span", { class: "b-number" }, percent(probability)),
      el("span", { class: "b-mark" }, isHidden ? "hidden" : ""),
    ];
    const item = el("li", { class: isHidden ? "b-guess is-own" : "b-guess" }, ...parts);
    if (!mask) return item;
    const button = el(
      "button",
      { class: "b-small b-put", "data-no-picture": "", "aria-label": `Insert ${token} into the sentence` },
      "insert",
    );
    button.addEventListener("click", () => put(mask, token).catch(console.warn));
    item.append(button);
    if (mask.piece) return item; // the lens shows the first piece of a word
    const path = el("button", { class: "b-path", "aria-label": `The path of ${token} through the layers` });
    path.addEventListener("click", () => {
      ask({ view: "lens", mask: mask.mask, guess: token });
      announce("restored", null);
    });
    word.replaceWith(path);
    path.append(word);
    return item;
  }

  /** @param {OwnGuess} guess */
  function own(guess) {
    const line = el("p", { class: "b-own" }, "My guess ", el("bdi", { class: "b-hidden-word" }, guess.word));
    if (guess.error) {
      line.append(`: ${guess.error}`);
      return line;
    }
    const several = guess.pieces.length > 1;
    line.append(
      `: ${percent(guess.probability)}, `,
      several ? `its ${guess.pieces.length} pieces together; ranks ` : "rank ",
      guess.ranks.map((rank) => rank.toLocaleString("en")).join(", "),
    );
    return line;
  }

  /** @param {Comparison} comparison */
  function compare({ word, here, there }) {
    const points = Math.round(100 * (here - there));
    return el(
      "p",
      { class: "b-empty" },
      el("bdi", {}, word),
      `: ${percent(here)} with this model, ${percent(there)} with the first, ${points > 0 ? "+" : points < 0 ? "−" : ""}${Math.abs(points)} percentage points.`,
    );
  }

  /** @param {Mask} mask @param {number} number @param {boolean} [isBeside] */
  function card(mask, number, isBeside) {
    const title = el("h3", {}, `Mask ${number + 1}`);
    if (mask.word) title.append(" for ", el("bdi", { class: "b-hidden-word" }, mask.word));
    const several = mask.pieces.length > 1;
    const lists = mask.pieces.flatMap(({ answer, guesses }, piece) => [
      ...(several ? [el("h4", {}, `Piece ${piece + 1} of ${mask.pieces.length}`)] : []),
      el(
        "ol",
        {},
        ...guesses.map((guess) => row(guess, guess[0] === answer, isBeside ? null : { mask: number, piece })),
      ),
    ]);
    return el("section", { class: "b-card" }, title, ...lists, ...(mask.own ? [own(mask.own)] : []));
  }

  /** @type {Guesses | null} */
  let last = null;
  const game = guessFirst("masked-words", () => draw(last));

  /** A box for the person's own guess at each mask. @param {Mask[]} masks */
  function guessing(masks) {
    const boxes = masks.map((_, k) =>
      el("input", {
        type: "text",
        "aria-label": `Your word for mask ${k + 1}`,
        placeholder: "Your word",
        autocomplete: "off",
      }),
    );
    const form = el(
      "form",
      { class: "b-card" },
      ...masks.flatMap((_, k) => [el("h3", {}, `Mask ${k + 1}`), boxes[k]]),
      el("button", { type: "submit", class: "b-small", id: "uncover" }, "Show the model's guesses"),
    );
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const known = (last?.masks ?? masks).map(({ word = "", pieces }, k) =>
        pieces.every(({ answer }) => answer !== null)
          ? [
              boxes[k].value.trim().toLowerCase() === word.toLowerCase(),
              pieces.every((piece) => piece.guesses[0]?.[0] === piece.answer),
              true,
            ]
          : [],
      );
      game.uncover([0, 1, 2].map((column) => known.filter((each) => each[column]).length));
    });
    return form;
  }

  let covered = ""; // what the shown form asks

  function draw(/** @type {Guesses | null} */ value) {
    last = value;
    if (!value) return;
    const parts = [...(value.comparison || []).map(compare), ...value.notes.map((text) => note(text))];
    if (value.error) parts.unshift(note(value.error, true));
    if (value.masks.length)
      parts.unshift(
        el("div", { class: "b-cards" }, ...value.masks.map((mask, number) => card(mask, number, value.beside))),
      );
    if (value.hint) parts.unshift(el("p", { class: "b-empty" }, value.hint));
    if (value.caption) parts.unshift(el("h3", { class: "b-caption", dir: "auto" }, value.caption));
    if (!server.put) {
      root.replaceChildren(...parts);
      return;
    } // the model beside
    const covers = game.covers() && value.masks.length ? question.text + value.masks.map(({ word }) => word) : "";
    if (covers && covers === covered) return; // what was typed stays
    covered = covers;
    root.replaceChildren(game.line, ...(covers ? [guessing(value.masks)] : parts));
  }
  return draw;
}
