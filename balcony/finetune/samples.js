// Three examples of the chosen task, until a model has learned it.

import { el, fill } from "../parts/elements.js";
import { sample } from "./results.js";

/** @type {View} */
export const view = (root) => (/** @type {{examples: import("./results.js").LabelledParts[]} | null} */ value) =>
  fill(root, value?.examples?.length && [el("h3", "Three examples of the task"), el("ol", value.examples.map(sample))]);
