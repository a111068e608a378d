// A short list of facts about a text or a model, with notes or an error.

import { scrolling, table } from "../controls.js";
import { el, fact, fill, note, notes, withTerms } from "../parts/elements.js";

/** @typedef {[name: string, shape: string, count: string]} Parameter */
/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string, first?: string[], longest?: string, kind?: string, follows?: boolean, parameters?: Parameter[]}} Facts */

/** @param {Pick<Facts, "facts">} value */
export function list({ facts }) {
  const shown = facts.map(([name, text]) => fact([withTerms(name), el("bdi", { translate: "yes" }, text)]));
  return el("dl.b-facts", shown);
}

/** @param {Parameter[]} parameters */
function tensors(parameters) {
  const rows = parameters.map(([name, ...numbers]) => [el("code", name), ...numbers]);
  return scrolling("Parameters", table(["Parameter", "Shape", "Weights"], rows));
}

/** @type {View} */
export function view(root) {
  const shown = el("div"),
    all = el("details", { id: "parameters" }, el("summary", "Parameters by name and shape"), shown);
  return function draw(/** @type {Partial<Facts> | null} */ value) {
    if (!value) return fill(root);
    const { facts = [], error, parameters, notes: said = [] } = value;
    const more = parameters && all; // open or not as the person left it
    if (parameters) fill(shown, tensors(parameters));
    fill(root, facts.length > 0 && list({ facts }), error && note(error, true), notes(said), more);
  };
}
