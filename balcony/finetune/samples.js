// Three examples of the chosen task, the first one also as the model reads it, until a model has learned the task.

import { button, el, fill, note, tools } from "../parts/elements.js";
import { ask } from "../frame/question.js";
import { inputFigure } from "./figure.js";
import { sample } from "./results.js";

/** @typedef {{examples: import("./results.js").LabelledParts[], figure?: import("./figure.js").Figure, unknown?: string, knowing?: string}} Samples unknown: how many words the model lacks, where they are many; knowing: another one that has them */

/** Why many tokens of the figure are [UNK]. @param {Samples} samples */
const lacking = ({ unknown, knowing }) =>
  unknown && [
    note(`The shown model does not know ${unknown} of these words: it reads [UNK] in their place.`),
    knowing &&
      tools(
        button(`Show ${knowing}, which knows them`, () => ask({ model: knowing, step: null }), { id: "task-knowing" }),
      ),
  ];

/** @type {View} */
export const view = (root) => (/** @type {Samples | null} */ value) =>
  fill(
    root,
    value?.figure && [
      el("h3", "How an example goes in, and where its answer is read"),
      lacking(value),
      inputFigure(value.figure),
      el("h3", "Three examples of the task"),
      el("ol", value.examples.map(sample)),
    ],
  );
