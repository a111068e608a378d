// The settings of a recipe as one table. Those that people change most come first, and the others are folded. The page
// keeps what a person has changed.

import { options, table, toggle } from "../controls.js";
import { button, disable, draws, el, tools } from "../parts/elements.js";
import { on } from "../frame/page.js";

/** @typedef {{name: string, id: string, label: string, info: string, range: string, choices: [value: string, text: string][]}} Setting */
/** @typedef {{recipe: string, values: Record<string, string>, changed: Record<string, string>}} Held */

class Settings {
  /** @type {Held} */
  held = { recipe: "", values: {}, changed: {} };
  all = false;
  undo = button("Undo all changes", () => this.anew(() => this.take({ ...this.held, changed: {} })));

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options: { settings, first }, trigger, setValue }) {
    this.first = first;
    this.trigger = trigger;
    this.setValue = setValue;
    this.rows = settings.map((/** @type {Setting} */ setting) => this.row(setting));
    const whole = toggle("All settings", (isTicked) => {
      this.all = isTicked;
      this.show();
    });
    const rows = this.rows.map(({ element }) => element);
    root.append(table([], rows, { class: "b-table b-settings", "aria-label": "Settings" }), tools(whole, this.undo));
    on("kind", ({ kind }) => this.anew(() => this.give("corpus.kind", kind)));
  }

  /** @param {Setting} setting */
  row({ name, id, label, info, range, choices }) {
    const attributes = {
        id: `${id}-value`,
        "aria-describedby": `${id}-info`,
        oninput: () => this.give(name, box.value),
        onchange: () => this.trigger("input"), // not at each key, since it reads all examples again
      },
      box = choices.length
        ? options(el("select", attributes), choices)
        : el("input", { type: "text", autocomplete: "off", ...attributes }),
      meaning = el("p.b-empty", { id: `${id}-info` }, info),
      head = el("th", { scope: "row" }, el("label", { for: `${id}-value` }, label), meaning),
      element = el("tr", { id, title: name }, head, el("td", box, range && el("p.b-empty", range)));
    return { name, box, element };
  }

  /** A person gives a value. @param {string} name @param {string} value */
  give(name, value) {
    const { values } = this.held,
      changed = { ...this.held.changed, [name]: value };
    if (!(name in values)) return;
    if (value === values[name]) delete changed[name];
    this.take({ ...this.held, changed });
  }

  /** The recipe may be another one with these values. @param {() => void} change */
  anew(change) {
    change();
    this.trigger("anew");
  }

  /** @param {Held} held */
  take(held) {
    this.held = held;
    this.setValue(held);
    this.show();
  }

  /** Show the values, and the rows that are asked for. */
  show() {
    const { values, changed } = this.held;
    this.rows.forEach(({ name, box, element }, k) => {
      const isAskedFor = this.all || k < this.first || name in changed || element.contains(document.activeElement);
      element.hidden = !(name in values) || !isAskedFor;
      element.classList.toggle("is-changed", name in changed);
      const value = changed[name] ?? values[name] ?? "";
      if (box.value !== value) box.value = value;
    });
    disable(this.undo, !Object.keys(changed).length && "Nothing is changed.");
  }

  /** What a person has changed stays while the recipe does. @param {Held | null} held */
  draw(held) {
    if (!held) return;
    const { recipe, changed: mine } = this.held,
      all = { ...(recipe === held.recipe && mine), ...held.changed },
      changed = Object.entries(all).filter(([name, value]) => name in held.values && value !== held.values[name]);
    this.take({ ...held, changed: Object.fromEntries(changed) });
  }
}

/** @type {View} */
export const view = (root, context) => draws(new Settings(root, context));
