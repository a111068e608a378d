// Whether one sentence follows another.

import { bar, el, note } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { follow } from "../parts/page.js";

/** Whether the second sentence follows the first: a sentence, a bar and its two ends. */
export function verdict(root, { trigger }) {
  follow(root, () => trigger("submit"));

  /** One model's answer, under its name where there are two. */
  function answer(value) {
    const name = value.caption ? [el("h3", { dir: "auto" }, value.caption)] : [];
    if (value.error) return [...name, note(value.error, true)];
    return [...name,
      el("p", { class: "balcony-verdict" }, value.sentence, " ", el("strong", {}, percent(value.probability))),
      bar(value.is_next),
      el("p", { class: "balcony-ends" },
        el("span", {}, `${value.labels[1]} ${percent(1 - value.is_next)}`),
        el("span", {}, `${value.labels[0]} ${percent(value.is_next)}`)),
      ...value.notes.map((text) => note(text))];
  }

  return function draw(value) {
    if (!value) return;
    if (value.error || value.hint) {
      root.replaceChildren(value.error ? note(value.error, true) : el("p", { class: "balcony-empty" }, value.hint));
      return;
    }
    root.replaceChildren(...answer(value), ...(value.other ? answer(value.other) : []),
      ...(value.other && !value.other.error ? [el("p", { class: "balcony-empty" },
        `The two models are ${Math.round(100 * Math.abs(value.is_next - value.other.is_next))} percentage points apart.`)] : []));
  };
}
