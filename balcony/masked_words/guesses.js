// The guesses for the masked words.

import { bar, bringIn, button, direction, el, fill, note, notes, roam, tools } from "../parts/elements.js";
import { firstRight, NO_EARLIER_STEPS } from "../parts/first_right.js";
import { count, percent } from "../parts/numbers.js";
import { announce, latest, orError } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { guessFirst } from "../lessons/guess_first.js";

const PIECES = "A word here has several pieces: “##” begins one that continues a word.";
const LACKING = "The vocabulary of this model lacks this word, so the model cannot guess it.";

const ONE_OFF = "One head is off here, because you switched it off under Attention.";
/** @param {number} off */
const headsOff = (off) => `${off} heads are off here, because you switched them off under Attention.`;

/** @typedef {[token: string, probability: number]} Guess */
/** @typedef {{word: string, error?: string, pieces: string[], probability: number, ranks: number[]}} OwnGuess */
/** @typedef {[token: string, probability: number | null, rank: number | null]} Answer a piece of the hidden word; null: not known */
/** @typedef {{answer: Answer | null, guesses: Guess[]}} Piece */
/** @typedef {{word?: string, is_lacking: boolean, pieces: Piece[], own?: OwnGuess}} Mask is_lacking: the vocabulary lacks the hidden word */
/** @typedef {any} Guesses see `guesses_value` in balcony/masked_words/tab.py; tellFirst: draws what `first_right` has answered */

/** @param {Piece} piece */
const isRight = ({ answer, guesses }) => answer !== null && answer[0] === guesses[0]?.[0];

/** The likeliest word for a mask, put together from its pieces. @param {Mask} mask */
function filling({ pieces }) {
  const best = pieces.map(({ guesses }) => guesses[0] ?? /** @type {Guess} */ (["", 0])),
    word = best
      .map(([token], k) => (k && token.startsWith("##") ? token.slice(2) : `${k ? " " : ""}${token}`))
      .join(""),
    right = pieces.every(isRight) && el("span", { role: "img", "aria-label": "right" }, " ✓");
  return el(
    "mark.b-filling",
    el("bdi", word),
    el("small", ` ${percent(best.reduce((product, [, each]) => product * each, 1))}`),
    right,
  );
}

/** A sentence with a guess in place of each mask. @param {(string | number)[]} parts @param {Mask[]} masks */
const filled = (parts, masks) =>
  el(
    "p.b-filled",
    { dir: direction(parts.filter((part) => typeof part === "string")) },
    parts.map((part) => (typeof part === "string" ? el("bdi", part) : filling(masks[part]))),
  );

/** Show a guess in the closer view that is open, or else layer by layer. @param {number} mask @param {string} guess */
function lookCloser(mask, guess) {
  const { view, answers } = question,
    rated = view === "swap" && answers ? [...new Set([...answers, guess])] : answers;
  ask({ view: view === "sweep" ? "lens" : view, mask, guess, answers: rated });
  bringIn(document.getElementById("masked-beside"));
}

/**
 * A guess, of which the closer view shows more: of a word of several pieces the first.
 * @param {Guess | Answer} guess @param {number | null | undefined} rank of what was hidden @param {string} hidden what that is
 * @param {(() => void) | false} follow
 */
function line([token, probability], rank, hidden, follow) {
  const word = el("bdi.b-guess-word", { title: token }, token);
  const path = { class: "b-path", "aria-label": `Look closer at ${token}` };
  const mark = rank === 1 ? `✓ ${hidden}` : rank ? `${hidden}, rank ${count(rank)}` : hidden;
  return el(
    rank === undefined ? "li.b-guess" : "li.b-guess.is-own",
    el("div", follow ? button(word, follow, path) : word, rank !== undefined && el("div.b-mark", mark)),
    bar(probability ?? 0, "mlm"),
    el("span.b-number", probability === null ? "–" : percent(probability)),
  );
}

/** The guesses for a piece, and after them the hidden one if it is not among them. @param {Piece} piece @param {(guess: Guess | Answer, rank?: number | null) => Node} item */
function ranked({ answer, guesses }, item) {
  const isListed = guesses.some(([token]) => token === answer?.[0]);
  return el(
    "ol",
    guesses.map((guess) => item(guess, answer && guess[0] === answer[0] ? answer[2] : undefined)),
    answer && !isListed && item(answer, answer[2]),
  );
}

/** @param {OwnGuess} guess */
function ownLine({ word, error, pieces, probability, ranks }) {
  const each = () => pieces.map((piece, k) => [k > 0 && ", ", el("bdi", piece), ` ${count(ranks[k])}`]);
  const judged = error
    ? `: ${error}`
    : pieces.length > 1
      ? [`: ${percent(probability)} for its ${pieces.length} pieces together. `, "Rank of each piece: ", each()]
      : `: ${percent(probability)}, rank ${count(ranks[0])}`;
  return el("p.b-own", "My guess ", el("bdi.b-hidden-word", word), judged);
}

/** @param {Mask} mask @param {number} number @param {boolean} canFollow whether the closer view is about this model */
function card({ word, is_lacking: isLacking, pieces, own }, number, canFollow) {
  const hidden = pieces.length > 1 ? "the hidden piece" : "the hidden word";
  const lists = pieces.map((each, piece) => [
    pieces.length > 1 && el("h4", `Piece ${piece + 1} of ${pieces.length}`),
    roam(
      ranked(each, (guess, rank) =>
        line(guess, rank, hidden, canFollow && !piece && (() => lookCloser(number, guess[0]))),
      ),
    ),
  ]);
  const title = el("h3", `Mask ${number + 1}`, word && [" for ", el("bdi.b-hidden-word", word)]);
  const keys = el("p.b-empty.b-keys", { "data-no-picture": "" }, "The arrow keys go from word to word.");
  return el("section.b-card", keys, title, isLacking && note(LACKING), lists, own && ownLine(own), el("p.b-first"));
}

/** The model's answer. @param {Guesses} value @param {boolean} canFollow */
function answered({ caption, hint, off, masks = [], sentences = [], error, notes: texts = [] }, canFollow) {
  const cards = masks.map((mask, number) => card(mask, number, canFollow)),
    hasPieces = cards.some(({ textContent }) => textContent.includes("##"));
  return [
    caption && el("h3.b-caption", { dir: "auto" }, caption),
    hint && el("p.b-empty", hint),
    off &&
      tools(
        el("span.b-empty", off === 1 ? ONE_OFF : headsOff(off)),
        button("Switch on", () => ask({ off: [] })),
      ),
    sentences.map((parts) => filled(parts, masks)),
    hasPieces && el("p.b-empty", PIECES),
    cards.length > 0 && el("div.b-cards", cards),
    error && note(error, true),
    notes(texts),
  ];
}

/** Tell when each word was first right. @param {HTMLElement} root @param {string} model key of the run @param {(number | null | false)[] | null} steps for each mask the kept step at which it was first right, null for none, false for a mask without a word; null where no earlier step is kept */
function tellFirst(root, model, steps = []) {
  root.querySelectorAll(".b-first").forEach((line, mask) => {
    const step = steps?.[mask];
    if (steps === null) fill(line, mask === 0 && NO_EARLIER_STEPS);
    else if (step === null) fill(line, "Right at none of the kept steps.");
    else fill(line, typeof step === "number" && firstRight(model, step));
  });
  const found = (steps ?? []).flatMap((step) => (typeof step === "number" ? step : []));
  announce("right", { tab: "masked-words", model, steps: found });
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
      const typed = boxes[k].value.trim();
      if (!typed || pieces.some(({ answer }) => answer === null)) return [];
      return [[typed.toLowerCase() === word.toLowerCase(), pieces.every(isRight), true]];
    });
    const own = boxes.map(({ value }) => value.trim()).find(Boolean);
    if (own) ask({ guess: own }); // its probability and rank
    uncover([0, 1, 2].map((column) => known.filter((each) => each[column]).length));
  };
  const show = el("button.b-small", { type: "submit", id: "uncover" }, "Show the model's guesses"),
    lines = boxes.map((box, k) => [el("h3", `Mask ${k + 1}`), tools(box, box === boxes.at(-1) && show)]);
  return el("form.b-card", { onsubmit: submit }, lines);
}

/**
 * The best guesses for each mask, with a bar.
 * @type {View}
 */
export function view(root, { options }) {
  if (!options.canFollow) return (value) => fill(root, value && answered(value, false)); // the model beside
  /** @type {Guesses | null} */
  let last = null;
  let covered = ""; // what the shown form asks
  const game = guessFirst("word", "masked-words", () => draw(last));

  /** Ask when the run learned the words, which takes much longer than its guesses. */
  const follow = latest(async (/** @type {Guesses} */ value, /** @type {string} */ model) => {
    const { steps } = await orError(answer("first-right"));
    if (value !== last || steps === undefined) return;
    value.tellFirst = () => tellFirst(root, model, steps);
    if (!covered) value.tellFirst();
  });

  /** @param {Guesses | null} value @param {any} [of] the question */
  function draw(value, of) {
    last = value;
    if (!value) return;
    if (of && value.isOfRun) follow(value, of.model);
    const { masks = [] } = value;
    const covers = game.covers(of) && masks.length ? question.text + masks.map(({ word }) => word) : "";
    if (covers && covers === covered) return; // what was typed stays
    covered = covers;
    const uncover = (/** @type {number[]} */ counts) => game.uncover(counts);
    fill(root, game.line, covers ? guessing(masks, uncover) : answered(value, true));
    if (!covers) value.tellFirst?.();
  }
  return draw;
}
