// A short list of facts about a text or a model, with notes or an error.

import { scrolling, table } from "../controls.js";
import { el, fact, fill, note, notes } from "../parts/elements.js";

/** @typedef {[name: string, shape: string, count: string]} Parameter */
/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string, first?: string[], follows?: boolean, few?: string, parameters?: Parameter[], card?: string, links?: [what: string, link: string][]}} Facts */

/** @param {Facts} value */
export function list({ facts }) {
  const shown = facts.map(([name, text]) => fact([name, el("bdi", { translate: "yes" }, text)]));
  return el("dl.b-facts", shown);
}

/** @param {Parameter[]} parameters @param {boolean} isOpen */
function tensors(parameters, isOpen) {
  const rows = parameters.map(([name, ...numbers]) => [el("code", name), ...numbers]),
    shown = table(["Parameter", "Shape", "Weights"], rows);
  return el(
    "details",
    { id: "parameters", open: isOpen ? "" : null },
    el("summary", "Parameters by name and shape"),
    scrolling("Parameters", shown),
  );
}

/** What the model's card says, and links to try it. @param {Facts} value */
const card = ({ card: text, links = [] }) =>
  text && [
    el("p.b-model-card", text),
    el(
      "p.b-tools",
      links.length > 0 && "Try it:",
      ...links.map(([what, link]) => el("a.b-small", { href: link }, what)),
    ),
  ];

/** @type {View} */
export const view = (root) =>
  function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const { error } = value;
    const isOpen = root.querySelector("details")?.open ?? false;
    fill(root, value.facts.length > 0 && list(value), error && note(error, true), notes(value.notes), card(value));
    if (value.parameters) root.append(tensors(value.parameters, isOpen));
  };
