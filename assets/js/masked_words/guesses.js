// The guesses for the masked words.

import { bar, button, el, fill, note, notes } from "../parts/elements.js";
import { count, percent, signed } from "../parts/numbers.js";
import { announce, orError, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { guessFirst } from "../lessons/guess_first.js";

/** @typedef {[token: string, probability: number]} Guess */
/** @typedef {{word: string, error?: string, pieces: string[], probability: number, ranks: number[]}} OwnGuess */
/** @typedef {{word?: string, pieces: {answer: string | null, guesses: Guess[]}[], own?: OwnGuess}} Mask */
/** @typedef {{word: string, here: number, there: number}} Comparison probabilities of a hidden word by two models */
/** @typedef {(mask: number, piece: number, token: string) => void} Put puts a guess into the sentence */
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

/** A guess, with its path through the layers: the lens shows the first piece of a word. @param {Guess} guess @param {boolean} isHidden whether it is the word that was hidden @param {number} mask @param {number} piece @param {Put | null} put */
function line([token, probability], isHidden, mask, piece, put) {
  const word = el("bdi.b-guess-word", { title: token }, token);
  const follow = () => {
    ask({ view: "lens", mask, guess: token });
    announce("restored", null);
  };
  const path = { class: "b-path", "aria-label": `The path of ${token} through the layers` };
  const insert = { class: "b-small b-put", "data-no-picture": "", "aria-label": `Insert ${token} into the sentence` };
  return el(
    isHidden ? "li.b-guess.is-own" : "li.b-guess",
    put && !piece ? button(word, follow, path) : word,
    bar(probability, "mlm"),
    el("span.b-number", percent(probability)),
    el("span.b-mark", isHidden && "hidden"),
    put && button("insert", () => put(mask, piece, token), insert),
  );
}

/** @param {OwnGuess} guess */
function ownLine({ word, error, pieces, probability, ranks }) {
  const several = pieces?.length > 1 ? `its ${pieces.length} pieces together; ranks ` : "rank ";
  const judged = error
    ? `: ${error}`
    : [`: ${percent(probability)}, `, several, ranks.map((rank) => count(rank)).join(", ")];
  return el("p.b-own", "My guess ", el("bdi.b-hidden-word", word), judged);
}

/** @param {Comparison} comparison */
function compared({ word, here, there }) {
  const apart = `${signed(100 * (here - there))} percentage points`;
  return el(
    "p.b-empty",
    el("bdi", word),
    `: ${percent(here)} with this model, ${percent(there)} with the first, ${apart}.`,
  );
}

/** @param {Mask} mask @param {number} number @param {Put | null} put */
function card({ word, pieces, own }, number, put) {
  const lists = pieces.map(({ answer, guesses }, piece) => {
    const lines = guesses.map((guess) => line(guess, guess[0] === answer, number, piece, put));
    return [pieces.length > 1 && el("h4", `Piece ${piece + 1} of ${pieces.length}`), el("ol", lines)];
  });
  const title = el("h3", `Mask ${number + 1}`, word && [" for ", el("bdi.b-hidden-word", word)]);
  return el("section.b-card", title, lists, own && ownLine(own));
}

/** The model's answer. @param {Guesses} value @param {Put | null} put */
function answered({ caption, hint, masks, error, comparison = [], notes: texts }, put) {
  const cards = masks.map((mask, number) => card(mask, number, put));
  return [
    caption && el("h3.b-caption", { dir: "auto" }, caption),
    hint && el("p.b-empty", hint),
    cards.length > 0 && el("div.b-cards", cards),
    error && note(error, true),
    comparison.map(compared),
    notes(texts),
  ];
}

/** A box for the person's own guess at each mask. @param {Mask[]} masks @param {(counts: number[]) => void} uncover */
function guessing(masks, uncover) {
  const boxes = masks.map((_, k) => {
    const name = { "aria-label": `Your word for mask ${k + 1}`, placeholder: "Your word" };
    return el("input", { type: "text", autocomplete: "off", ...name });
  });
  const submit = (/** @type {Event} */ event) => {
    event.preventDefault();
    const known = masks.flatMap(({ word = "", pieces }, k) => {
      if (pieces.some(({ answer }) => answer === null)) return [];
      const own = boxes[k].value.trim().toLowerCase() === word.toLowerCase(),
        models = pieces.every(({ answer, guesses }) => guesses[0]?.[0] === answer);
      return [[own, models, true]];
    });
    uncover([0, 1, 2].map((column) => known.filter((each) => each[column]).length));
  };
  return el(
    "form.b-card",
    { onsubmit: submit },
    boxes.map((box, k) => [el("h3", `Mask ${k + 1}`), box]),
    el("button.b-small", { type: "submit", id: "uncover" }, "Show the model's guesses"),
  );
}

/**
 * The best guesses for each mask, with a bar and a button that puts a guess into the sentence.
 * @type {View}
 */
export function view(root, { server }) {
  /** @type {Guesses | null} */
  let last = null;
  let covered = ""; // what the shown form asks
  const game = guessFirst("masked-words", () => draw(last));

  /** @type {Put} */
  async function put(mask, piece, token) {
    const { text, pair, hidden } = question;
    const edited = await orError(server.put(visitor.token, question, mask, piece, token));
    if (question.text !== text || question.pair !== pair || question.hidden !== hidden) return;
    if (edited.error) {
      root.append(note(edited.error, true));
      return;
    }
    announce("replaced", { text, pair, hidden });
    ask(edited);
  }

  /** @param {Guesses | null} value */
  function draw(value) {
    last = value;
    if (!value) return;
    if (!server.put) {
      fill(root, answered(value, null)); // the model beside
      return;
    }
    const { masks } = value;
    const covers = game.covers() && masks.length ? question.text + masks.map(({ word }) => word) : "";
    if (covers && covers === covered) return; // what was typed stays
    covered = covers;
    const uncover = (/** @type {number[]} */ counts) => game.uncover(counts);
    fill(root, game.line, covers ? guessing(masks, uncover) : answered(value, value.beside ? null : put));
  }
  return draw;
}
