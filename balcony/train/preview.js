// Above the form of a run: one line with the sizes of the text, which also folds the form where the window is narrow, the
// first sentences as they were cut, and more numbers.

import { button, changes, el, fill, note, notes, presses } from "../parts/elements.js";
import { KINDS } from "../parts/control.js";
import { announce, on } from "../frame/page.js";
import { onPart } from "../frame/question.js";
import { list } from "./facts.js";

/** @typedef {import("./facts.js").Facts} Facts */

const NAME = "Text and settings";

/** @type {View} */
export function view(root, { options, trigger }) {
  let follows = false; // a training that goes on from the shown model
  const isNew = changes();
  onPart(["model", "step"], () => follows && trigger("stale"));
  const line = el("span.b-preview-line", { id: "preview-line" }),
    rest = el("div");
  const unfold = (/** @type {boolean} */ isOpen) => {
    document.getElementById("train")?.classList.toggle("is-open", isOpen);
    change.ariaExpanded = `${isOpen}`;
    change.textContent = isOpen ? "Done" : NAME;
  };
  // The setting of the table, beside what was read.
  const choices = { label: "Kind of text", choices: options.kinds },
    kind = KINDS.select(choices, "preview-kind-info", (value) => announce("kind", { kind: value })),
    chosen = el("div.b-tools", { id: "preview-kind" }, kind.parts);
  const change = button(NAME, () => unfold(change.ariaExpanded === "false"), {
    id: "change-settings",
    "aria-expanded": false,
  });
  // What a button of the run does stands below the form, and why one is refused stands in it.
  const wasPressed = presses("#run-buttons button, #change-rate, #go-on");
  on("refused", ({ text }) => text && wasPressed());
  on("news", () => {
    if (!wasPressed()) return;
    unfold(false);
    for (const id of ["run-status", "run-buttons"]) document.getElementById(id)?.scrollIntoView({ block: "nearest" });
  });
  on("verdict", ({ run, step }) => {
    // The speed of the run's steps is known, and the next one is not slowed down. At first there is no run, and the form
    // is filled meanwhile.
    if (run && step === null) trigger("stale");
  });
  root.append(el("div.b-preview-head", line, change), rest);

  return function draw(/** @type {Facts | null} */ value) {
    if (!value) return;
    follows = value.follows ?? follows;
    const { error, first, longest, facts } = value,
      of = Object.fromEntries(facts);
    const own = (/** @type {string} */ name, /** @type {string} */ text) =>
      el(name, { dir: "auto", translate: "no" }, text);
    const begins = first?.map((text) => own("li", text));
    if (value.kind) kind.show(value.kind, {});
    line.textContent = facts.length
      ? `${of.Sentences} sentences · ${of.Parameters} weights · ${of["Estimated time"]}`
      : error
        ? "This cannot start:"
        : "Not ready yet:";
    announce("refused", { text: error ?? "" });
    if (!isNew(value)) return; // what a person has unfolded stays
    fill(
      rest,
      notes(value.notes),
      error && note(error, true),
      value.kind && chosen,
      begins && el("details.b-preview-more", { open: "" }, el("summary", "The text begins"), el("ol", begins)),
      longest &&
        el("details.b-preview-more", { open: "" }, el("summary", "The longest sentence"), el("ul", own("li", longest))),
      facts.length > 0 && el("details.b-preview-more", el("summary", "More numbers"), list(value)),
    );
  };
}
