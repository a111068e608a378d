// A short list of facts about a text or a model, with notes or an error.

import { el, fact, fill, note, notes } from "../parts/elements.js";

/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string, first?: string[]}} Facts */

/** @param {Facts} value */
export function list({ facts }) {
  const shown = facts.map(([name, text]) => fact([name, el("bdi", { translate: "yes" }, text)]));
  return el("dl.b-facts", shown);
}

/** @type {View} */
export const view = (root) =>
  function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const { error } = value;
    root.classList.toggle("is-stale", Boolean(error));
    fill(root, value.facts.length > 0 && list(value), error && note(error, true), notes(value.notes));
  };
