// A few sentences with a masked word; the guess in each changes while the model learns.

import { row, table } from "../controls.js";
import { announce } from "../frame/page.js";
import { el, fill } from "../parts/elements.js";
import { firstRight, NO_EARLIER_STEPS } from "../parts/first_right.js";
import { count, percent } from "../parts/numbers.js";

const TITLE = "Guesses for hidden words";
const HINT = "A few sentences with a hidden word appear here; the guesses change as the model learns.";

/** @param {HTMLElement} root */
export function guessBoard(root) {
  const caption = el("caption", TITLE),
    unseen = el("span.b-unseen", "Right or wrong"),
    empty = el("p.b-empty", HINT),
    names = ["Sentence", "Guess", "Probability", unseen],
    shown = table(names, [], { class: "b-table b-guess-table", id: "run-guesses", caption, numbers: 2 }),
    body = shown.tBodies[0],
    unknown = el("p.b-empty", { hidden: "" }, NO_EARLIER_STEPS);
  root.append(el("div.b-guess-frame", shown, unknown, empty));
  shown.hidden = true;

  /** @type {[before: string, answer: string, after: string, pair: string, number: number][]} */
  let known = [];
  /** For each sentence the kept step at which it was first right, null for none. @type {(number | null)[]} */
  let steps = [];
  let model = "";
  const line = ([guess, probability, isRight], /** @type {number} */ k) => {
    const [before, answer, after, pair, number] = known[k],
      // What Masked words then asks, since the same word in another sentence or pair may be right at another step.
      asked = { text: before + answer + after, pair, hidden: [number] },
      sentence = el("td", { dir: "auto", translate: "no" }, before, el("mark", answer), after),
      first = steps[k] ?? null,
      mark = el("td.b-mark", isRight ? "✓ right" : "✗ wrong"),
      cells = [
        sentence,
        el("td.b-guess-word", el("bdi", guess), first !== null && firstRight(model, first, asked)),
        el("td.b-number", percent(probability)),
        mark,
      ];
    return row(cells, { "data-right": Boolean(isRight) });
  };

  return {
    /** @param {string} [run] */
    begin(run = "") {
      model = run;
      shown.hidden = unknown.hidden = true;
      steps = [];
      empty.hidden = false;
      fill(body);
    },
    /** sentences: with the first guesses. step: of the model that guessed. first_right: with those of the newest model. */
    show({ sentences, words, step, first_right: first }) {
      if (first !== undefined) {
        steps = first ?? [];
        unknown.hidden = first !== null;
        announce("right", { tab: "train", model, steps: steps.flatMap((step) => step ?? []) });
      }
      caption.textContent = `${TITLE} at step ${count(step)}`;
      known = sentences ?? known;
      fill(body, words.map(line));
      shown.hidden = false;
      empty.hidden = true;
    },
  };
}
