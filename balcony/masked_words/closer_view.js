// Masked words in detail: layer by layer, explained, each word hidden once, or others in the place of one.

import { tint } from "../colours.js";
import { keepingFocus, scrolling, table } from "../controls.js";
import { bar, button, direction, el, fill, note, notes, own, roam, tools, withTerms } from "../parts/elements.js";
import { placesOf } from "../parts/swaps.js";
import { count, percent, precise } from "../parts/numbers.js";
import { ask, openTab } from "../frame/question.js";
import { explanations } from "./explained.js";
import { taughtView } from "./taught.js";
import { writing } from "./writing.js";

/** @import { Child } from "../parts/elements.js" */

/** @typedef {any} Closer see balcony/masked_words/closer_view.py */
/** @typedef {{word: string, sentence: number, probability: number | null, pieces: string[], rivals: [token: string, probability: number][][]}} Swept a word that was hidden once */

const LEAST = 1e-38; // float32 has hardly a smaller probability; its logarithm is finite
const HINT =
  "The [[output head]] for masked words was trained on the last layer. The table shows where this head can read the answer, not where the answer appears: an earlier layer may hold it in a form that this head cannot read.";

/** @param {string} word */
const hiddenWord = (word) => el("bdi.b-hidden-word", word);

/**
 * One line for each sentence.
 * @template {{sentence: number, word: string}} Word
 * @param {Word[]} words @param {(word: Word) => Node} item
 */
const sentences = (words, item) =>
  [0, 1].map((sentence) => {
    const line = words.filter((word) => word.sentence === sentence);
    return line.length > 0 && el("div.b-words", { dir: direction(line.map(({ word }) => word)) }, line.map(item));
  });

/** @param {Closer} value */
function lens({ rows, candidates, watched, size }) {
  const names = candidates.map((name) => (name === watched ? hiddenWord(name) : el("bdi", name))),
    head = ["", "Best guess", ["Rank of ", hiddenWord(watched)], ...names];
  const lines = rows.map(({ best, rank, cells }, layer) => [
    withTerms(layer > 1 ? `Layer ${layer}` : layer ? "[[layer|Layer]] 1" : "[[embedding|Embeddings]]"),
    [el("bdi", best[0]), ` ${percent(best[1])}`],
    count(rank),
    ...cells.map((each) => tint(el("td.b-number", percent(each)), each)),
  ]);
  const p = Math.max(rows[rows.length - 1].cells[candidates.indexOf(watched)], LEAST),
    right = `If “${own(watched)}” is right, the [[loss]] is −ln ${precise(p)} = ${(-Math.log(p)).toFixed(4)};`,
    said = `${right} a [[chance level|uniform guess]] has ln ${count(size)} = ${Math.log(size).toFixed(4)}.`;
  const layers = { tab: "step-by-step", stage: "layers", token: null },
    follow = button("Follow it step by step", () => openTab(layers));
  return [
    scrolling("Layer by layer", table(head, lines, { numbers: 2, class: "b-table is-narrow" })),
    tools(follow),
    el("p.b-empty", withTerms(said), " ", withTerms(HINT)),
  ];
}

/** The sentences by colour, and the guesses for the clicked word below them. @param {{words: Swept[]}} value */
function sweep({ words }) {
  const rivals = el("div.b-rivals", { "aria-live": "polite" });
  const buttons = words.map(({ word, probability }, index) => {
    const small = el("small.b-number", probability === null ? "unknown" : percent(probability)),
      item = button([el("bdi", word), small], () => show(index), { class: "b-seen", "aria-pressed": false });
    return tint(item, probability ?? 0);
  });

  /** @param {number} index */
  function show(index) {
    buttons.forEach((item, k) => (item.ariaPressed = `${k === index}`));
    const guess = (/** @type {[string, number]} */ [token, probability], /** @type {number} */ rank) => [
      rank > 0 && ", ",
      el("bdi", token),
      ` ${percent(probability)}`,
    ];
    const lines = words[index].rivals.map((guesses, k) =>
      el("p", "Guesses for ", hiddenWord(words[index].pieces[k]), ": ", guesses.map(guess)),
    );
    fill(rivals, lines);
  }

  const name = "Words by how likely they are",
    lines = sentences(words, (word) => buttons[words.indexOf(word)]),
    group = roam(el("div", { role: "group", "aria-label": name }, lines));
  return el("div", group, rivals);
}

/** A table of the words in the place of one, which can be chosen above it. @param {Closer} value */
function swap({ places, place, answers, rows, notes: more }) {
  const group = placesOf(places, place, (chosen) => ask({ place: chosen }));
  const lines = rows.map(({ word, cells }) => [
    el("bdi", word),
    ...cells.map((p) => el("td.b-swap", p === null ? "–" : [bar(p, "mlm"), el("span.b-number", percent(p))])),
  ]);
  const head = ["Word there", ...answers.map((answer) => el("bdi", answer))],
    rated = scrolling("Other words in one place", table(head, lines, { numbers: Infinity })),
    carry = button("Patch by hand", () => openTab({ tab: "step-by-step", stage: "map", place }));
  return [group, notes(more), rated, tools(carry)];
}

/** The masked words as buttons, of which one is shown. @param {string[]} names @param {number} [shown] */
function masks(names, shown) {
  const buttons = names.map((name, mask) =>
    button([`Mask ${mask + 1}: `, el("bdi", name)], () => ask({ mask }), { "aria-pressed": mask === shown }),
  );
  const attributes = { role: "group", "aria-label": "The masked word to show", "data-no-picture": "" };
  return roam(el("div.b-tools", attributes, buttons));
}

/** @type {View} */
export function view(root) {
  /** @type {Record<string, (value: any, of: any) => Child>} */
  const views = {
    lens,
    sweep,
    swap,
    taught: taughtView(),
    explained: explanations(),
    write: (value) => writing(value, sentences),
  };

  return function draw(/** @type {Closer | null} */ value, /** @type {any} */ of) {
    if (!value) return;
    const { kind, masks: names = [], mask, error, text } = value;
    keepingFocus(root, () =>
      fill(
        root,
        names.length > 1 && masks(names, mask),
        views[kind]?.(value, of),
        error ? note(error, true) : text && el("p.b-empty", text),
      ),
    );
  };
}
