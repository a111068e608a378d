// What a run of the form will train: one line with its sizes, which also folds the form where the window is narrow, the
// first sentences as they were cut, and more numbers.

import { el, note } from "../parts/elements.js";

/** @typedef {import("../parts/facts.js").Facts & {first?: string[]}} Preview */

/** @type {View} */
export function view(root) {
  const line = el("span", { class: "b-preview-line", id: "preview-line" });
  const change = el("button", { class: "b-small-button", id: "change-settings", "aria-expanded": false }, "Change");
  const rest = el("div", {});
  change.addEventListener("click", () => {
    const isOpen = document.getElementById("train")?.classList.toggle("is-open") ?? false;
    change.ariaExpanded = `${isOpen}`;
    change.textContent = isOpen ? "Done" : "Change";
  });
  root.append(el("div", { class: "b-preview-head" }, line, change), rest);

  return function draw(/** @type {Preview | null} */ value) {
    if (!value) return;
    root.classList.toggle("is-stale", Boolean(value.error));
    if (value.facts.length) {
      const of = Object.fromEntries(value.facts);
      line.textContent = `${of.Sentences} sentences · ${of.Parameters} weights · ${of["Estimated time"]}`;
    } else line.textContent = "No text yet";
    rest.replaceChildren(
      ...(value.error ? [note(value.error, true)] : []),
      ...value.notes.map((text) => note(text)),
      ...(value.first
        ? [
            el(
              "details",
              { class: "b-preview-more", open: "" },
              el("summary", {}, "The text begins"),
              el("ol", {}, ...value.first.map((text) => el("li", { dir: "auto", translate: "no" }, text))),
            ),
          ]
        : []),
      ...(value.facts.length
        ? [
            el(
              "details",
              { class: "b-preview-more" },
              el("summary", {}, "More numbers"),
              el(
                "dl",
                { class: "b-facts" },
                ...value.facts.map(([name, text]) =>
                  el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", { translate: "yes" }, text))),
                ),
              ),
            ),
          ]
        : []),
    );
  };
}
