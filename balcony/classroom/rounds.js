// The question to the room: which word is hidden. It has a gap for each answer, a histogram of these and, once it is
// uncovered, what is hidden and the model's guesses beside it.

import { row, table } from "../controls.js";
import { bar as share, button, el, own as theirs } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";

/** @typedef {import("./state.js").Round} Round */

const GAP = "[MASK]";
const ARRIVED = "Your guess has arrived. The answer is shown when your teacher uncovers it.";
const COVERED = "While this is asked, the guesses of models are covered on all pages.";
const UNRATED = "A – means that the model has no number for this word.";

/** The sentences of a question; `gap` makes what stands at each gap. @param {Round} round @param {(gap: number) => Node} gap */
function sentences({ texts }, gap) {
  let number = 0;
  return texts.map((text) => {
    const parts = text.split(GAP).flatMap((part, k) => [k > 0 && gap(number++), part && theirs(part)]);
    return el("p.class-sentence", { dir: "auto" }, parts);
  });
}

/** How often each answer was given and, uncovered, how probable it is for the model. @param {Round} round */
export const tables = ({ bars, count, open, gaps, own }) =>
  bars.map((words, k) => {
    const most = Math.max(1, ...words.map(([, times]) => times));
    const rows = words.map(([word, times, probability, isRight]) => {
      const mark = [isRight && "hidden", own?.[k] === word && "your guess"].filter(Boolean).join(", ");
      const cells = [[theirs(word), mark && el("span.b-mark", mark)], share(times / most, "mlm"), `${times}`];
      if (!open) cells.push(probability === null ? "–" : percent(probability ?? 0));
      return row(cells, { class: isRight ? "is-own" : null }, 2);
    });
    const head = open ? [] : ["Word", el("span.b-unseen", "Share"), "Room", "Model"];
    const caption = [gaps > 1 && `Mask ${k + 1}: `, `${count} ${count === 1 ? "guess" : "guesses"}`];
    return table(head, rows, { numbers: 2, caption: el("caption", caption), class: "b-table class-histogram" });
  });

/** What a page answers with: a field for each gap and the button. @param {Round} round @param {(words: string[]) => void} answer */
function form(round, answer) {
  const boxes = Array.from({ length: round.gaps }, (_, k) =>
    el("input", {
      type: "text",
      autocomplete: "off",
      "aria-label": `Your word for mask ${k + 1}`,
      placeholder: "Your word",
    }),
  );
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    answer(boxes.map(({ value }) => value));
  };
  const submit = el("button.b-small", { type: "submit", id: "class-guess" }, "Send my guess");
  return el(
    "form",
    { onsubmit: send },
    sentences(round, (gap) => boxes[gap]),
    submit,
  );
}

/**
 * A question as a page shows it, without the histogram. @param {Round} round @param {boolean} isTeacher
 * @param {{answer: (words: string[]) => void, uncover: () => void, end: () => void}} actions
 */
export function asking(round, isTeacher, { answer, uncover, end }) {
  const { open, own, model, bars } = round,
    isUnrated = bars.flat().some(([, , probability]) => probability === null);
  const tools = [
    isTeacher && open && button("Uncover", uncover, { id: "class-uncover" }),
    isTeacher && button("End", end, { id: "class-end" }),
  ];
  return [
    el("div.b-tools", el("strong", open ? "Which word goes here?" : "What the room guessed, and the model"), tools),
    open && !own && !isTeacher ? form(round, answer) : sentences(round, () => el("b", "____")),
    open && own && el("p.b-empty", ARRIVED),
    open && el("p.b-empty", COVERED),
    !open && el("p.b-empty", "The model is ", theirs(model ?? ""), "."),
    isUnrated && el("p.b-empty", UNRATED),
  ];
}
