// A few sentences with a masked word; the guess in each changes while the model learns.

import { row, table } from "../controls.js";
import { el, fill } from "../parts/elements.js";
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
    body = shown.tBodies[0];
  root.append(el("div.b-guess-frame", shown, empty));
  shown.hidden = true;

  /** @type {[before: string, answer: string, after: string][]} */
  let known = [];
  const line = ([guess, probability, isRight], /** @type {number} */ k) => {
    const [before, answer, after] = known[k],
      sentence = el("td", { dir: "auto", translate: "no" }, before, el("mark", answer), after),
      mark = el("td.b-mark", isRight ? "✓ right" : "✗ wrong"),
      cells = [sentence, el("td.b-guess-word", el("bdi", guess)), el("td.b-number", percent(probability)), mark];
    return row(cells, { "data-right": Boolean(isRight) });
  };

  return {
    begin() {
      shown.hidden = true;
      empty.hidden = false;
      fill(body);
    },
    /** sentences: with the first guesses. step: of the model that guessed. */
    show({ sentences, words, step }) {
      caption.textContent = `${TITLE} at step ${count(step)}`;
      known = sentences ?? known;
      fill(body, words.map(line));
      shown.hidden = false;
      empty.hidden = true;
    },
  };
}
