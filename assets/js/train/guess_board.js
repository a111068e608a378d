// Sentences with a masked word; the guesses change while the model learns.

import { el } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";

/** A few sentences with a masked word; the guess in each changes while the model learns. */
export function guessBoard(root) {
  const body = el("tbody", {});
  const title = "Guesses for hidden words";
  const caption = el("caption", {}, title);
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      ...["Sentence", "Guess", "Probability", ""].map((name) =>
        el("th", { scope: "col" }, name || el("span", { class: "b-unseen" }, "Right or wrong")),
      ),
    ),
  );
  const table = el("table", { class: "b-guess-table", id: "run-guesses" }, caption, head, body);
  const empty = el(
    "p",
    { class: "b-empty" },
    "A few sentences with a hidden word appear here; the guesses change as the model learns.",
  );
  root.append(el("div", { class: "b-guess-frame" }, table, empty));
  table.hidden = true;

  function row([before, answer, after]) {
    return el(
      "tr",
      {},
      el("td", { dir: "auto", translate: "no" }, before, el("mark", {}, answer), after),
      el("td", { class: "b-guess-word" }),
      el("td", { class: "b-number" }),
      el("td", { class: "b-mark" }),
    );
  }

  return {
    begin() {
      table.hidden = true;
      empty.hidden = false;
      body.replaceChildren();
    },
    /** step: of the model that guessed. */
    show({ sentences, words, step }) {
      caption.textContent = `${title} at step ${count(step)}`;
      if (sentences) body.replaceChildren(...sentences.map(row));
      words.forEach(([guess, probability, isRight], index) => {
        const cells = body.children[index].children;
        cells[1].replaceChildren(el("bdi", {}, guess));
        cells[2].textContent = percent(probability);
        cells[3].textContent = isRight ? "✓ right" : "✗ wrong";
        /** @type {HTMLElement} */ (body.children[index]).dataset.right = `${Boolean(isRight)}`;
      });
      table.hidden = false;
      empty.hidden = true;
    },
  };
}
