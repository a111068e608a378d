// Controls that show and change one part of the question (see ui/parts/controls.py), and lists of choices of forms.

import { el, fill } from "./elements.js";
import { on } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

/** @typedef {[key: any, label: string][]} Choices */
/** @typedef {{label: string, most: number, choices: Choices}} Named what it asks for, as far as its kind needs it */
/** @typedef {Named & {kind: string, part: string, info: string, resets: object}} Options */
/** @typedef {{first?: any, most?: number, choices?: Choices}} Shown where the question has nothing, and other ends and choices */
/** @typedef {{parts: Node[], show: (value: any, shown: Shown) => void}} Control */

/** @param {string} text */
const linesOf = (text) => text.split("\n").filter((line) => line.trim());

/** By kind: the control, which calls `give` with what the person chooses. @type {Record<string, (options: Partial<Named>, id: string, give: (value: any) => void) => Control>} */
export const KINDS = {
  checkbox({ label }, id, give) {
    const box = el("input", { type: "checkbox", "aria-describedby": id });
    box.addEventListener("change", () => give(box.checked));
    return {
      parts: [el("label", { class: "b-toggle" }, box, label)],
      show(value) {
        box.checked = value;
      },
    };
  },
  radio({ label, choices = [] }, id, give) {
    const list = el("div", { class: "wrap b-toolbar" });
    let built = "";
    list.addEventListener("change", ({ target }) => give(/** @type {HTMLInputElement} */ (target).value));
    return {
      parts: [el("fieldset", {}, el("legend", { class: "b-control-name" }, label), list)],
      show(value, { first, choices: others = choices }) {
        if (JSON.stringify(others) !== built) {
          const item = (/** @type {string} */ key) => el("input", { type: "radio", name: id, value: key });
          list.replaceChildren(...others.map(([key, text]) => el("label", { class: "b-toggle" }, item(key), text)));
          built = JSON.stringify(others);
        }
        for (const box of list.querySelectorAll("input")) box.checked = box.value === (value || first);
      },
    };
  },
  // The browser's own: Gradio's stays open when the Tab key leaves it, and has its label as the value of a field, which
  // the page cannot translate.
  select({ label, choices = [] }, id, give) {
    const items = choices.map(([, text]) => el("option", {}, text)),
      list = el("select", { "aria-label": label, "aria-describedby": id }, items);
    list.addEventListener("change", () => give(choices[list.selectedIndex][0]));
    return {
      parts: [el("div", { class: "b-control-name" }, label), list],
      show(value) {
        list.selectedIndex = choices.findIndex(([key]) => key === value);
      },
    };
  },
  slider({ label, most }, id, give) {
    const boxes = ["range", "number"].map((type) =>
      el("input", { type, min: 0, max: most, step: 1, "aria-label": label, "aria-describedby": id }),
    );
    for (const box of boxes)
      box.addEventListener("input", () => {
        if (box.value && box.validity.valid) give(Number(box.value));
      });
    return {
      parts: [el("div", { class: "b-control-name" }, label), el("div", { class: "b-slider" }, ...boxes)],
      show(value, { most: end = most }) {
        for (const box of boxes) {
          box.max = `${end}`;
          if (Number(box.value) !== value || !box.value) box.value = `${value ?? end}`;
        }
      },
    };
  },
  text({ label }, id, give) {
    const box = el("input", { type: "text", "aria-describedby": id, autocomplete: "off" });
    box.addEventListener("input", () => give(box.value));
    return {
      parts: [el("label", { class: "b-control-name" }, label, box)],
      show(value = "") {
        if (box.value !== value) box.value = value;
      },
    };
  },
  lines({ label }, id, give) {
    const box = el("textarea", { rows: 3, "aria-describedby": id });
    box.addEventListener("input", () => give(linesOf(box.value)));
    return {
      parts: [el("label", { class: "b-control-name" }, label, box)],
      show(value = []) {
        if (`${linesOf(box.value)}` !== `${value}`) box.value = value.join("\n");
      },
    };
  },
};

/** A list of choices of a form; the server may change what it offers. @type {View} */
function ofForm(root, context) {
  let offered = "";
  /** @type {Control} */
  let control;
  return (value) => {
    const { label, info, choices } = context.options;
    if (offered !== JSON.stringify(choices)) {
      offered = JSON.stringify(choices);
      control = KINDS.select({ label, choices }, "", (chosen) => {
        context.setValue(chosen);
        context.trigger("input");
      });
      fill(root, control.parts, info && el("span", {}, info));
    }
    control.show(value, {});
  };
}

/** @type {View} */
export function view(root, context) {
  if (!context.options.part) return ofForm(root, context);
  const { kind, part, info, resets } = /** @type {Options} */ (context.options),
    id = `info-of-${part}`;
  const { parts, show } = KINDS[kind](context.options, id, (value) => ask({ [part]: value, ...resets }));
  root.classList.add("b-control");
  root.append(...parts, el("p", { class: "b-empty", id }, info));
  /** @type {Shown} */
  let shown = {};
  const paint = () => show(question[part] ?? shown.first, shown);
  on("question", ({ changed }) => {
    if (changed.has(part)) paint();
  });
  return function draw(/** @type {Shown | null} */ value) {
    if (value) shown = value;
    paint();
  };
}
