// Three examples of the chosen task, the first one also as the model reads it, until a model has learned the task.

import { button, el, fill, tools } from "../parts/elements.js";
import { ask } from "../frame/question.js";
import { inputFigure } from "./figure.js";
import { sample } from "./results.js";

/** @typedef {{examples: import("./results.js").LabelledParts[], figure?: import("./figure.js").Figure, unknown?: string, knowing?: string}} Samples unknown: how many words the model lacks, where they are many; knowing: another one that has them */

/** @type {View} */
export const view = (root) => (/** @type {Samples | null} */ value) => {
  const { figure, examples = [], unknown, knowing } = value ?? {},
    lacking = unknown && `The shown model reads [UNK] for ${unknown} of these words.`,
    show = () => ask({ model: knowing, step: null });
  fill(
    root,
    figure && [
      tools(
        el("h3", "How an example goes in, and where its answer is read"),
        knowing && button(`Show ${knowing}, which knows these words`, show, { id: "task-knowing" }),
      ),
      inputFigure(figure, lacking),
      el("h3", "Three examples of the task"),
      el("ol", examples.map(sample)),
    ],
  );
};
