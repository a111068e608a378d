// The settings of a recipe: some are shown, the others where a search or the person asks for them. A changed one stays.

import { toggle } from "../controls.js";
import { button, disable, draws, el, note, tools } from "../parts/elements.js";
import { KINDS } from "../parts/control.js";
import { keep, on, visitor } from "../frame/page.js";

/** @typedef {{name: string, id: string, label: string, info: string, choices: [value: any, text: string][] | null}} Setting */
/** @typedef {{recipe: string, values: Record<string, any>, changed: Record<string, any>}} Held */

class Settings {
  /** @type {Held} */
  held = { recipe: "", values: {}, changed: {} };
  all = false;
  none = note("No setting has these words.");
  why = note("", true);
  undo = button("Undo all changes", () => this.change({ ...this.held, changed: {} }, "", "undone"));

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options, trigger, setValue }) {
    const { controls, shown } = options;
    this.trigger = trigger;
    this.setValue = setValue;
    this.controls = controls.map((setting, k) => this.control(setting, k < shown));
    this.search = el("input", { type: "search", "aria-label": "Find a setting", placeholder: "Find a setting" });
    this.search.addEventListener("input", () => this.find());
    const whole = toggle("All settings", (isTicked) => {
      this.all = isTicked;
      this.find();
    });
    const grid = this.controls.map(({ element }) => element);
    root.append(tools(this.search, whole, this.undo), this.none, el("div.b-settings", grid));
    on("refused", ({ text }) => this.blame(text));
    addEventListener("pagehide", () => keep("changed", visitor.token, Object.keys(this.held.changed).length > 0));
  }

  /** Say below the changed setting that a sentence names first why it cannot be. @param {string} text */
  blame(text) {
    const places = this.controls
      .filter(({ name, element }) => name in this.held.changed && element.checkVisibility())
      .map(({ label, element }) => ({ element, at: text.toLowerCase().indexOf(label.toLowerCase()) }))
      .filter(({ at }) => at >= 0);
    if (text && !places.length) return; // it is about something else
    this.why.remove();
    this.why.textContent = text;
    places.sort((a, b) => a.at - b.at)[0]?.element.lastElementChild?.before(this.why);
  }

  /** @param {Setting} setting @param {boolean} isShown without a search */
  control({ name, id, label, info, choices }, isShown) {
    const give = (/** @type {any} */ value) => {
      const changed = { ...this.held.changed, [name]: value };
      if (value === this.held.values[name]) delete changed[name];
      this.change({ ...this.held, changed }, name);
    };
    const kind = choices
        ? KINDS.select({ label, choices }, `${id}-info`, give)
        : KINDS.text({ label }, `${id}-info`, give),
      element = el("div.b-control", { id, title: name }, kind.parts, el("p.b-empty", { id: `${id}-info` }, info));
    return { name, label, isShown, element, show: kind.show, words: `${name} ${label} ${info}`.toLowerCase() };
  }

  /** @param {Held} held @param {string} name of what a person has changed, "" for all @param {string} event to fire */
  change(held, name, event = "input") {
    this.held = held;
    this.why.remove();
    this.setValue(held);
    this.find(name);
    if (!name) this.paint();
    this.trigger(event);
  }

  /** Show the settings that are asked for. @param {string} [staying] */
  find(staying) {
    const { values, changed } = this.held,
      wanted = this.search.value.trim().toLowerCase();
    this.none.hidden = !wanted;
    for (const { name, isShown, element, words } of this.controls) {
      const isFound = wanted ? `${words} ${element.textContent}`.toLowerCase().includes(wanted) : this.all || isShown;
      if (isFound && name in values) this.none.hidden = true;
      element.hidden = !(name in values) || !(isFound || name in changed || name === staying);
      element.classList.toggle("is-changed", name in changed);
    }
    disable(this.undo, !Object.keys(changed).length && "Nothing is changed.");
  }

  paint() {
    const { values, changed } = this.held;
    for (const { name, show } of this.controls) show(name in changed ? changed[name] : values[name], {});
  }

  /** @param {Held | null} held */
  draw(held) {
    if (!held) return;
    const { recipe, changed: mine } = this.held,
      all = { ...(recipe === held.recipe && mine), ...held.changed },
      isChanged = ([name, value]) => name in held.values && value !== held.values[name],
      changed = Object.entries(all).filter(isChanged);
    this.held = { ...held, changed: Object.fromEntries(changed) };
    this.setValue(this.held);
    this.paint();
    this.find();
  }
}

/** @type {View} */
export const view = (root, context) => draws(new Settings(root, context));
