// At which kept step of a run a hidden word is guessed right for the first time.

import { ask } from "../frame/question.js";
import { button } from "./elements.js";
import { count } from "./numbers.js";

const TITLE = "Of the kept steps; later ones may be wrong again. Press to look at this step.";
export const NO_EARLIER_STEPS = "This run keeps no earlier step, so it is not known when a word was first right.";

/** The step, which can be pressed. @param {string} model key of the run @param {number} step @param {object} [more] of the question in which the word is hidden */
export const firstRight = (model, step, more) =>
  button(`First right at step ${count(step)}`, () => ask({ model, step, ...more }), { class: "b-path", title: TITLE });
