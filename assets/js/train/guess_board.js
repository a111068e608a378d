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

  /** @param {[before: string, answer: string, after: string]} sentence */
  const line = ([before, answer, after]) =>
    row([
      el("td", { dir: "auto", translate: "no" }, before, el("mark", answer), after),
      el("td.b-guess-word"),
      el("td.b-number"),
      el("td.b-mark"),
    ]);

  return {
    begin() {
      shown.hidden = true;
      empty.hidden = false;
      fill(body);
    },
    /** step: of the model that guessed. */
    show({ sentences, words, step }) {
      caption.textContent = `${TITLE} at step ${count(step)}`;
      if (sentences) fill(body, sentences.map(line));
      words.forEach(([guess, probability, isRight], index) => {
        const { cells, dataset } = body.rows[index];
        fill(cells[1], el("bdi", guess));
        cells[2].textContent = percent(probability);
        cells[3].textContent = isRight ? "✓ right" : "✗ wrong";
        dataset.right = `${Boolean(isRight)}`;
      });
      shown.hidden = false;
      empty.hidden = true;
    },
  };
}
