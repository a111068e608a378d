// Short lists of facts about a text or a model.

import { el, note } from "./elements.js";

/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string}} Facts */

/** @type {View} */
export function view(root) {
  return function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const list = el(
      "dl",
      { class: "b-facts" },
      ...value.facts.map(([name, text]) =>
        el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", { translate: "yes" }, text))),
      ),
    );
    root.classList.toggle("is-stale", Boolean(value.error));
    root.replaceChildren(
      ...(value.facts.length ? [list] : []),
      ...(value.error ? [note(value.error, true)] : []),
      ...value.notes.map((text) => note(text)),
    );
  };
}
