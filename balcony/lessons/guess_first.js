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
  const key = (/** @type {any} */ { text, pair, hidden } = question) => JSON.stringify([text, pair, hidden]);
  let answered = key(), // the pair of the newest answer
    uncovered = "",
    isOn = false,
    isCovered = false;
  const cover = () => {
    document.body.classList.toggle(`guessing-${tab}`, isCovered && question.tab === tab);
    line.classList.toggle("is-behind", isCovered && answered !== key());
  };
  const turn = (/** @type {boolean} */ is) => {
    isOn = is;
    another.hidden = score.hidden = !is;
    uncovered = "";
    if (!is) ask({ guess: "" }); // the views speak of the hidden word again
    redraw();
  };
  onPart(["tab", "text", "pair", "hidden"], cover);
  const box = toggle("Guess first", turn, { id: `guess-first-${tab}` }),
    line = tools(box, another, score);
  return {
    line,
    /** Whether an answer is covered. @param {object} [of] its question; without one, the newest answer is meant */
    covers(of) {
      if (of) answered = key(of);
      isCovered = isOn && answered !== uncovered;
      cover();
      return isCovered;
    },
    /** Show the model's answer and count: the person's right ones, the model's, of how many. @param {number[]} counts */
    uncover(counts) {
      uncovered = answered;
      counts.forEach((count, k) => {
        tally[k] += count;
      });
      if (tally[2]) score.textContent = `You ${tally[0]} of ${tally[2]}, the model ${tally[1]} of ${tally[2]}.`;
      redraw();
    },
  };
}
