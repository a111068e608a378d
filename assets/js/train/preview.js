// Short lists of facts about a text or a model. Above the form of a run: one line with its sizes, which also folds the form
// where the window is narrow, the first sentences as they were cut, and more numbers.

import { button, el, fact, fill, note, notes } from "../parts/elements.js";

/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string, first?: string[]}} Facts */

/** @param {Facts} value */
function list({ facts }) {
  const shown = facts.map(([name, text]) => fact([name, el("bdi", { translate: "yes" }, text)]));
  return el("dl.b-facts", shown);
}

/** @type {View} */
export const facts = (root) =>
  function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const { error } = value;
    root.classList.toggle("is-stale", Boolean(error));
    fill(root, value.facts.length > 0 && list(value), error && note(error, true), notes(value.notes));
  };

/** @type {View} */
export function textPreview(root) {
  const line = el("span.b-preview-line", { id: "preview-line" }),
    rest = el("div");
  const unfold = () => {
    const isOpen = document.getElementById("train")?.classList.toggle("is-open") ?? false;
    change.ariaExpanded = `${isOpen}`;
    change.textContent = isOpen ? "Done" : "Change";
  };
  const change = button("Change", unfold, { id: "change-settings", "aria-expanded": false });
  root.append(el("div.b-preview-head", line, change), rest);

  return function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const { error, first, facts } = value,
      of = Object.fromEntries(facts);
    const begins = first?.map((text) => el("li", { dir: "auto", translate: "no" }, text));
    root.classList.toggle("is-stale", Boolean(error));
    line.textContent = facts.length
      ? `${of.Sentences} sentences · ${of.Parameters} weights · ${of["Estimated time"]}`
      : "No text yet";
    fill(
      rest,
      error && note(error, true),
      notes(value.notes),
      begins && el("details.b-preview-more", { open: "" }, el("summary", "The text begins"), el("ol", begins)),
      facts.length > 0 && el("details.b-preview-more", el("summary", "More numbers"), list(value)),
    );
  };
}
