// Guess first: a person answers before the model's answer is uncovered, and a tally of both stays while the page is open.

import { toggle } from "../controls.js";
import { button, el, tools } from "../parts/elements.js";
import { announce } from "../frame/page.js";
import { ask, onPart, question } from "../frame/question.js";

/** @param {string} tab @param {() => void} redraw */
export function guessFirst(tab, redraw) {
  const draw = () => {
    uncovered = ""; // a pair whose answer was shown can come again
    announce("draw", null);
  };
  const another = button("Another one", draw, { hidden: "" }),
    score = el("span", { role: "status" }),
    tally = [0, 0, 0];
  let uncovered = "",
    isOn = false,
    isCovered = false;
  const cover = () => document.body.classList.toggle(`guessing-${tab}`, isCovered && question.tab === tab);
  const key = () => JSON.stringify([question.text, question.pair, question.hidden]);
  const turn = (/** @type {boolean} */ is) => {
    isOn = is;
    another.hidden = score.hidden = !is;
    uncovered = "";
    if (!is) ask({ guess: "" }); // the views speak of the hidden word again
    redraw();
  };
  onPart(["tab"], cover);
  const box = toggle("Guess first", turn, { id: `guess-first-${tab}` });
  return {
    line: tools(box, another, score),
    /** Whether the answer to the question is covered. */
    covers() {
      isCovered = isOn && key() !== uncovered;
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
