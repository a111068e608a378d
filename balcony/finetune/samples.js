// Three examples of the chosen task, the first one also as the model reads it, until a model has learned the task.

import { el, fill } from "../parts/elements.js";
import { inputFigure } from "./figure.js";
import { sample } from "./results.js";

/** @typedef {{examples: import("./results.js").LabelledParts[], figure?: import("./figure.js").Figure}} Samples */

/** @type {View} */
export const view = (root) => (/** @type {Samples | null} */ value) =>
  fill(
    root,
    value?.figure && [
      el("h3", "How an example goes in, and where its answer is read"),
      inputFigure(value.figure),
      el("h3", "Three examples of the task"),
      el("ol", value.examples.map(sample)),
    ],
  );
