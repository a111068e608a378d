// Controls that show and change one part of the question (see balcony/parts/controls.py), and lists of choices of forms.

import { toggle } from "../controls.js";
import { changes, el, fill } from "./elements.js";
import { ask, onPart, question } from "../frame/question.js";

/** @typedef {[key: any, label: string][]} Choices */
/** @typedef {{label: string, most: number, choices: Choices}} Named what it asks for, as far as its kind needs it */
/** @typedef {Named & {kind: string, part: string, info: string, resets: object}} Options */
/** @typedef {{first?: any, most?: number, choices?: Choices, names?: string[]}} Shown where the question has nothing, and other ends, choices and names of numbers */
/** @typedef {{parts: Node[], show: (value: any, shown: Shown) => void}} Control */

/** @param {string} text */
const linesOf = (text) => text.split("\n").filter((line) => line.trim());

/** @param {string} label @param {...Node} content below it */
const named = (label, ...content) => [el("div.b-control-name", label), ...content];

/**
 * A field in which a person types. @param {string} label @param {HTMLInputElement | HTMLTextAreaElement} box
 * @param {(text: string) => any} read @param {(value: any) => void} give @returns {Control}
 */
function field(label, box, read, give) {
  box.addEventListener("input", () => give(read(box.value)));
  return {
    parts: [el("label.b-control-name", label, box)],
    show(value = read("")) {
      if (`${read(box.value)}` !== `${value}`) box.value = [value].flat().join("\n");
    },
  };
}

/** By kind: the control, which calls `give` with what the person chooses. @type {Record<string, (options: Partial<Named>, id: string, give: (value: any) => void) => Control>} */
export const KINDS = {
  checkbox({ label = "" }, id, give) {
    const element = toggle(label, give, { "aria-describedby": id });
    return {
      parts: [element],
      show(value) {
        /** @type {HTMLInputElement} */ (element.firstChild).checked = value;
      },
    };
  },
  radio({ label, choices = [] }, id, give) {
    const list = el("div.wrap.b-toolbar", { onchange: ({ target }) => give(target.value) }),
      isNew = changes();
    return {
      parts: [el("fieldset", el("legend.b-control-name", label), list)],
      show(value, { first, choices: others = choices }) {
        const item = (/** @type {string} */ key) => el("input", { type: "radio", name: id, value: key });
        if (isNew(others)) fill(list, ...others.map(([key, text]) => el("label.b-toggle", item(key), text)));
        for (const box of list.querySelectorAll("input")) box.checked = box.value === (value || first);
      },
    };
  },
  // The browser's own: Gradio's stays open when the Tab key leaves it, and has its label as the value of a field, which
  // the page cannot translate.
  select({ label = "", choices = [] }, id, give) {
    const items = choices.map(([, text]) => el("option", text)),
      onchange = () => give(choices[list.selectedIndex][0]),
      list = el("select", { "aria-label": label, "aria-describedby": id, onchange }, items);
    return {
      parts: named(label, list),
      show(value) {
        list.selectedIndex = choices.findIndex(([key]) => key === value);
      },
    };
  },
  slider({ label = "", most }, id, give) {
    const oninput = () => give(Number(box.value)),
      box = el("input", { type: "range", max: most, "aria-label": label, "aria-describedby": id, oninput }),
      name = el("span");
    return {
      parts: named(label, el("div.b-slider", box, name)),
      show(value, { most: end = most, names = [] }) {
        box.max = `${end}`;
        box.value = `${value ?? end}`;
        name.textContent = box.ariaValueText = names[value ?? end] ?? box.value;
      },
    };
  },
  text({ label = "" }, id, give) {
    const box = el("input", { type: "text", "aria-describedby": id, autocomplete: "off" });
    return field(label, box, (text) => text, give);
  },
  lines: ({ label = "" }, id, give) => field(label, el("textarea", { rows: 3, "aria-describedby": id }), linesOf, give),
};

/** A list of choices of a form; the server may change what it offers. @type {View} */
function ofForm(root, context) {
  const isNew = changes();
  /** @type {Control} */
  let control;
  return (value) => {
    const { label, info, choices } = context.options;
    if (isNew(choices)) {
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
  root.append(...parts, el("p.b-empty", { id }, info));
  /** @type {Shown} */
  let shown = {};
  const paint = () => show(question[part] ?? shown.first, shown);
  onPart([part], paint);
  return function draw(/** @type {Shown | null} */ value) {
    if (value) shown = value;
    paint();
  };
}
