// How the model writes by unmasking, round by round.

import { tint } from "../colours.js";
import { button, el, fill, note, tools, withTerms } from "../parts/elements.js";
import { KINDS } from "../parts/control.js";
import { percent } from "../parts/numbers.js";
import { ask, question } from "../frame/question.js";

/** @import { Child } from "../parts/elements.js" */
/** @typedef {any} Writing see `writing_value` in balcony/masked_words/writing.py */
/** @typedef {{word: string, sentence: number, mask: number, position: number}} Written a token; mask: its number, -1 for a given one */

const INTRO =
  "The model fills in all [[[MASK]]]s at once. Each round then hides the least sure words again and fills them in once more, beside those that stay. Words that you hide above are written too; above [[temperature]] 0, words are drawn.";
const LEGEND =
  "Percentage: the probability of the word when it was written; raised: in which round. Dashed: hidden again after this round. Underlined: part of a run of words that stands in the training text.";
const LIMITS =
  "What this cannot show is how likely the sentence is: words of one round are guessed apart from one another, and their probabilities multiplied are not the probability of the sentence. Special tokens and [UNK] are never written.";
const SOURCES =
  "The rounds are those of [[unmasking|mask-predict]] (Ghazvininejad et al. 2019). Wang and Cho (2019) wrote with BERT; diffusion over text (Austin et al. 2021) trains a model for it.";
const UNKNOWN_TEXT =
  "The text that this model was trained on is not here, so it cannot be said whether any of this stands in it.";

/** @param {Writing} value */
function told({ copied, places }) {
  if (!copied) return UNKNOWN_TEXT;
  const { inside, longest } = copied;
  return inside
    ? `${inside} of the ${places.length} tokens written stand word for word in the training text, in runs of two words or more. The longest run has ${longest} words.`
    : "No two neighbouring words, one of them written here, stand so in the training text.";
}

/**
 * @param {Writing} value
 * @param {(words: Written[], item: (word: Written) => Node) => Child} sentences lays out one line for each sentence
 */
export function writing(value, sentences) {
  const { tokens, places, rounds, texts, seed, copied } = value,
    names = ["given", ...rounds.map((_, k) => `${k + 1} of ${rounds.length}`)],
    lines = el("div"),
    slider = KINDS.slider({ label: "Round", most: rounds.length }, "writing-legend", show),
    second = tokens.indexOf("[SEP]");

  /** The round that wrote the token of a mask. @param {number} mask @param {number} at the shown round */
  const wroteIt = (mask, at) => (at > 1 && !rounds[at - 2].hidden.includes(mask) ? wroteIt(mask, at - 1) : at);

  /** @param {Written} token @param {number} at the shown round */
  function drawn({ word, mask, position }, at) {
    const round = rounds[at - 1];
    if (mask < 0 || !round) return el(mask < 0 ? "span.b-given" : "span.b-seen.is-again", el("bdi", word));
    const p = round.probabilities[mask],
      order = el("sup", el("span.b-unseen", "round "), `${wroteIt(mask, at)}`),
      made = el("span.b-seen", el("bdi", word), el("small.b-number", percent(p), order));
    made.classList.toggle("is-again", round.hidden.includes(mask));
    const inRun = copied?.runs.some(([first, last]) => first <= position && position < last);
    made.classList.toggle("is-copied", at === rounds.length && Boolean(inRun)); // undefined would switch it on
    return tint(made, p);
  }

  /** @param {number} at */
  function show(at) {
    const words = tokens.map((token, position) => {
      const mask = places.indexOf(position),
        word = mask < 0 ? token : (rounds[at - 1]?.tokens[mask] ?? "[MASK]");
      return { word, sentence: Number(position > second), mask, position };
    });
    const own = words.filter(({ position }) => position % (tokens.length - 1) && position !== second);
    fill(
      lines,
      sentences(own, (token) => drawn(token, at)),
    );
    slider.show(at, { names });
  }
  show(rounds.length);

  const [text, pair] = texts,
    put = button("Put it into the sentences", () => ask({ text, pair, hidden: [] })),
    only = button("Begin with [MASK]s alone", () => ask({ text: "[MASK]", pair: "", hidden: [] })),
    again = seed !== null && [el("span", `Seed ${seed}`), button("Draw again", () => ask({ seed: question.seed + 1 }))];
  return [
    el("p.b-empty", withTerms(INTRO)),
    tools(only),
    texts.filter(Boolean).map((each) => el("p.b-filled", { dir: "auto" }, el("bdi", { translate: "no" }, each))),
    el("div.b-control", slider.parts),
    lines,
    el("p.b-empty", { id: "writing-legend" }, LEGEND),
    note(told(value)),
    tools(again, put),
    el("p.b-empty", withTerms(LIMITS), " ", withTerms(SOURCES)),
  ];
}
