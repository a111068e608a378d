// Short lists of facts: what a text gives, what a model is. With the option `follows` a list asks for a new look when
// the model that the page looks at is another one.

import { el, note } from "./elements.js";
import { follow } from "./page.js";

export function facts(root, { trigger, options }) {
  if (options.follows) follow(root, () => trigger("submit"));
  return function draw(value) {
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
