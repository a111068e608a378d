// Short lists of facts about a text or a model. With the option `follows` a list asks for new facts when the model of
// the page changes.

import { el, note } from "./elements.js";
import { follow } from "./page.js";

/** @typedef {{facts: [name: string, text: string][], notes: string[], error?: string}} Facts */

/** @type {View} */
export function facts(root, { trigger, options }) {
  if (options.follows) follow(root, () => trigger("submit"));
  return function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    const list = el("dl", { class: "balcony-facts" },
      ...value.facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, text)))));
    root.classList.toggle("is-stale", Boolean(value.error));
    root.replaceChildren(
      ...(value.facts.length ? [list] : []),
      ...(value.error ? [note(value.error, true)] : []),
      ...value.notes.map((text) => note(text)));
  };
}
