// Guess first: a person answers before the model's answer is uncovered, and a tally of both stays while the page is open.

import { toggle } from "../controls.js";
import { button, el, tools } from "../parts/elements.js";
import { cover } from "../frame/cover.js";
import { announce } from "../frame/page.js";
import { ask, onPart, question } from "../frame/question.js";

/** What a question asks the person. @param {any} of */
const key = ({ text, pair, hidden }) => JSON.stringify([text, pair, hidden]);

/** @param {"word" | "pair"} answer what is covered @param {string} tab in which @param {() => void} redraw */
export function guessFirst(answer, tab, redraw) {
  const draw = () => {
    uncovered = ""; // a pair whose answer was shown can come again
    announce("draw", null);
  };
  const another = button("Another one", draw, { hidden: "" }),
    score = el("span", { role: "status" }),
    tally = [0, 0, 0];
  let answered = key(question), // the newest answer's
    uncovered = "",
    isOn = false;
  const update = () => {
    cover(answer, tab, isOn && question.tab === tab && key(question) !== uncovered);
    line.classList.toggle("is-behind", isOn && key(question) !== answered);
  };
  const turn = (/** @type {boolean} */ is) => {
    isOn = is;
    another.hidden = score.hidden = !is;
    uncovered = "";
    if (!is) ask({ guess: "" }); // the views speak of the hidden word again
    redraw();
  };
  onPart(["tab", "text", "pair", "hidden"], update);
  const box = toggle("Guess first", turn, { id: `guess-first-${tab}` }),
    line = tools(box, another, score);
  return {
    line,
    /** Whether an answer is covered. @param {object} [of] its question; without one, the newest answer is meant */
    covers(of) {
      if (of) answered = key(of);
      update();
      return isOn && answered !== uncovered;
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
