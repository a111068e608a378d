// Masked words in detail: layer by layer, with one more word hidden, or each word hidden once.

import { bars } from "../parts/row.js";
import { behindText, effect, effectLegend } from "../colours.js";
import { direction, el, note, roam } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { announce } from "../frame/page.js";
import { ask } from "../frame/question.js";

/** @typedef {{masks?: string[], mask?: number, text: string}} Common the masked words, the shown one, an explanation */
/** @typedef {{best: [token: string, probability: number], rank: number, cells: number[]}} LensRow of a layer */
/** @typedef {{kind: "lens", candidates: string[], watched: string, rows: LensRow[], size: number, words: [token: string, probability: number][]}} Lens */
/** @typedef {{word: string, sentence: number, change: number}} Mattered a word; change of the answer's probability without it */
/** @typedef {{kind: "mattered", answer: string, probability: number, words: Mattered[]}} LeaveOneOut */
/**
 * @typedef {object} Swept A word that was hidden once.
 * @property {string} word
 * @property {number} sentence
 * @property {number | null} probability null for an unknown word
 * @property {string[]} pieces
 * @property {[token: string, probability: number][][]} rivals likelier or next likely tokens, for each piece
 */
/** @typedef {{kind: "sweep", words: Swept[]}} Sweep */
/** @typedef {Common & {error?: string} & (Lens | LeaveOneOut | Sweep | {kind: ""})} Closer */

/**
 * @template {HTMLElement} Element
 * @param {Element} element @param {string} colour
 */
function tint(element, colour) {
  element.style.background = colour;
  return element;
}

/**
 * Percentage points with a sign.
 * @param {number} change
 */
function points(change) {
  const value = Math.round(change * 100);
  return value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0";
}

/**
 * One line for each sentence.
 * @template {{sentence: number, word: string}} Word
 * @param {Word[]} words @param {(word: Word) => Node} item
 */
function sentences(words, item) {
  return [0, 1]
    .map((sentence) => words.filter((word) => word.sentence === sentence))
    .filter((line) => line.length)
    .map((line) => el("div", { class: "b-words", dir: direction(line.map(({ word }) => word)) }, ...line.map(item)));
}

/** @param {Lens} value */
function lens(value) {
  const rows = value.rows.map((row, layer) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, layer ? `Layer ${layer}` : "Embeddings"),
      el("td", {}, el("bdi", {}, row.best[0]), ` ${percent(row.best[1])}`),
      el("td", { class: "b-number" }, row.rank.toLocaleString("en")),
      ...row.cells.map((probability) =>
        tint(el("td", { class: "b-number" }, percent(probability)), behindText(probability)),
      ),
    ),
  );
  const names = value.candidates.map((name) =>
    el(
      "th",
      { scope: "col", class: "b-number" },
      el("bdi", { class: name === value.watched ? "b-hidden-word" : null }, name),
    ),
  );
  return el(
    "div",
    { class: "b-scroll", tabindex: "0", role: "region", "aria-label": "Layer lens" },
    el(
      "table",
      { class: "b-lens" },
      el(
        "thead",
        {},
        el(
          "tr",
          {},
          el("th", { scope: "col" }),
          el("th", { scope: "col" }, "Best guess"),
          el(
            "th",
            { scope: "col", class: "b-number" },
            "Rank of ",
            el("bdi", { class: "b-hidden-word" }, value.watched),
          ),
          ...names,
        ),
      ),
      el("tbody", {}, ...rows),
    ),
  );
}

/** @param {Common & LeaveOneOut} value */
function mattered(value) {
  const answer = el("bdi", { class: "b-hidden-word" }, value.answer),
    probability = percent(value.probability);
  return el(
    "div",
    {},
    value.masks && value.masks.length > 1
      ? el("p", {}, "With these masks, ", answer, ` has ${probability}.`)
      : el("p", {}, "With only ", answer, ` hidden: ${probability}.`),
    ...sentences(value.words, (word) =>
      tint(
        el(
          "span",
          { class: "b-seen" },
          el("bdi", {}, word.word),
          el("small", { class: "b-number" }, points(word.change)),
        ),
        effect(-word.change),
      ),
    ),
    effectLegend((size) => `${size * 100}`),
  );
}

/**
 * The sentences by colour, and the guesses for the clicked word below them.
 * @param {Sweep} value
 * @param {number} open index of the clicked word
 * @param {(index: number) => void} press
 */
function sweep(value, open, press) {
  const rivals = el("div", { class: "b-rivals", "aria-live": "polite" });
  const buttons = value.words.map((word, index) => {
    const button = el(
      "button",
      { class: "b-seen", "aria-pressed": "false" },
      el("bdi", {}, word.word),
      el("small", { class: "b-number" }, word.probability === null ? "unknown" : percent(word.probability)),
    );
    button.addEventListener("click", () => show(index));
    return tint(button, behindText(word.probability ?? 0));
  });

  /** @param {number} index */
  function show(index) {
    press(index);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", `${i === index}`));
    const word = value.words[index];
    rivals.replaceChildren(
      ...word.rivals.map((guesses, i) =>
        el(
          "p",
          {},
          "Guesses for ",
          el("bdi", { class: "b-hidden-word" }, word.pieces[i]),
          ": ",
          ...guesses.flatMap(([token, probability], rank) => [
            rank ? ", " : "",
            el("bdi", {}, token),
            ` ${percent(probability)}`,
          ]),
        ),
      ),
    );
  }

  const group = el(
    "div",
    { role: "group", "aria-label": "Words by how likely they are" },
    ...sentences(value.words, (word) => buttons[value.words.indexOf(word)]),
  );
  if (buttons.length) {
    roam(group);
    if (open < buttons.length) show(open);
  }
  return el("div", {}, group, rivals);
}

/** @type {View} */
export function view(root) {
  let open = Infinity;
  let words = "";

  /** The masked words as buttons, of which one is shown. @param {string[]} names @param {number} [shown] */
  function masks(names, shown) {
    const buttons = names.map((name, mask) => {
      const button = el(
        "button",
        { class: "b-small", "aria-pressed": mask === shown },
        `Mask ${mask + 1}: `,
        el("bdi", {}, name),
      );
      button.addEventListener("click", () => ask({ mask }));
      return button;
    });
    const group = el(
      "div",
      { class: "b-tools", role: "group", "aria-label": "The masked word to show", "data-no-picture": "" },
      ...buttons,
    );
    roam(group);
    return group;
  }

  /** @param {Closer} value */
  function parts(value) {
    if (value.kind === "lens") {
      const follow = el("button", { class: "b-small-button" }, "Follow it step by step"),
        shown = value.words.length;
      follow.addEventListener("click", () => {
        ask({ tab: "step-by-step", stage: "layers", token: null });
        announce("open", null);
      });
      return [
        lens(value),
        bars(
          `${shown < value.size ? `The likeliest ${shown} of` : "All"} ${value.size} words: `,
          value.words.map(([, probability]) => probability),
          undefined,
          undefined,
          value.words.map(([word]) => word),
        ).box,
        el("div", { class: "b-tools", "data-no-picture": "" }, follow),
      ];
    }
    if (value.kind === "mattered") return [mattered(value)];
    return value.kind === "sweep"
      ? [
          sweep(value, open, (index) => {
            open = index;
          }),
        ]
      : [];
  }

  return function draw(/** @type {Closer | null} */ value) {
    if (!value) return;
    const now = value.kind === "sweep" ? value.words.map((word) => word.word).join(" ") : "";
    if (now !== words) open = Infinity;
    words = now;
    root.replaceChildren(
      ...(value.masks && value.masks.length > 1 ? [masks(value.masks, value.mask)] : []),
      ...parts(value),
      value.error ? note(value.error, true) : el("p", { class: "b-empty" }, value.text),
    );
  };
}
