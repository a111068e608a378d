// Guess first: a person answers before the model's answer is uncovered, and a tally of both stays while the page is open.

import { el } from "../parts/elements.js";
import { announce, on } from "../frame/page.js";
import { question } from "../frame/question.js";

/** @param {string} tab @param {() => void} redraw */
export function guessFirst(tab, redraw) {
  const box = el("input", { type: "checkbox", id: `guess-first-${tab}` });
  const another = el("button", { class: "b-small", hidden: "" }, "Another one");
  const score = el("span", { role: "status" }),
    tally = [0, 0, 0];
  let uncovered = "",
    isCovered = false;
  const cover = () => document.body.classList.toggle(`guessing-${tab}`, isCovered && question.tab === tab);
  const key = () => JSON.stringify([question.model, question.text, question.pair, question.hidden]);
  box.addEventListener("change", () => {
    another.hidden = !box.checked;
    uncovered = "";
    redraw();
  });
  another.addEventListener("click", () => announce("draw", null));
  on("question", ({ changed }) => {
    if (changed.has("tab")) cover();
  });
  return {
    line: el(
      "div",
      { class: "b-tools", "data-no-picture": "" },
      el("label", { class: "b-toggle" }, box, "Guess first"),
      another,
      score,
    ),
    /** Whether the answer to the question is covered. */
    covers() {
      isCovered = box.checked && key() !== uncovered;
      cover();
      return isCovered;
    },
    /** Show the model's answer and count: the person's right ones, the model's, of how many. @param {number[]} counts */
    uncover(counts) {
      uncovered = key();
      counts.forEach((count, k) => {
        tally[k] += count;
      });
      if (tally[2]) score.textContent = `You ${tally[0]} of ${tally[2]}, the model ${tally[1]} of ${tally[2]}.`;
      redraw();
    },
  };
}
