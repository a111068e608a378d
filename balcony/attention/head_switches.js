// Heads as switches: the model's answers without the heads that are off, and the change of each answer without each head.

import { effect, effectLegend } from "../colours.js";
import { options, select, table } from "../controls.js";
import { button, disable, draws, el, fill, notes, roam, showError, tools, withTerms } from "../parts/elements.js";
import { signed, toggled } from "../parts/numbers.js";
import { announce } from "../frame/page.js";
import { ask, onPart, partsOf, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { grid, headOf, headsOf, isOff } from "./heads.js";

/** @import { Head } from "./heads.js" */
/**
 * @typedef {object} Switches
 * @property {number} layers
 * @property {number} heads of a layer
 * @property {Head[]} off
 * @property {Record<string, string>} titles of the answers
 * @property {Record<string, [before: number, after: number]>} rows the answers with all heads and without those that are off
 * @property {Record<string, number[][]> | null} maps change of each answer without each head
 * @property {string} waits what to do before the maps are measured, "" once they are
 * @property {string[]} notes
 */

const MARKED = { is_next: "P([[IsNext]]) of the pair", loss: "[[MLM]] [[loss]] on the corpus" };
const INPUT = ["model", "step", "newest", "text", "pair", "hidden", "off"];
const input = () => partsOf(INPUT);

/** @param {Head} head */
const toggle = (head) => ask({ off: toggled(question.off, head) });

class HeadSwitches {
  /** @type {Switches} */
  value = /** @type {any} */ (null);
  shape = "";
  measure = select("What the map shows", [], () => this.show());
  allOn = button("Switch all on", () => ask({ off: [] }));
  each = button("Switch off one head at a time", () => {
    this.caption.textContent = "Measuring…";
    this.measureEach();
  });
  answers = el("div");
  grid = el("div");
  caption = el("p.b-empty");
  notes = el("div");
  chooser = tools(el("label", "Change of ", this.measure), this.each);
  maps = [this.chooser, this.grid, effectLegend((loss) => `${Math.abs(loss)}`), this.caption, this.notes];
  panel = el(
    "div.b-switches",
    el("section", el("h3", "What the model answers"), tools(this.allOn), this.answers),
    el("section", el("h3", "Without each head alone"), this.maps),
  );

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options }) {
    this.root = root;
    this.hint = options.hint;
    this.measureEach = asking(root, async () => {
      const asked = input();
      const found = await answer("measure");
      if (asked === input()) this.draw(found);
      else if (this.panel.isConnected) this.show();
    });
    onPart(["off"], () => this.panel.isConnected && this.show());
  }

  /** @param {Switches & {error?: string} | null} next */
  draw(next) {
    if (!next?.titles) return showError(this.root, next);
    this.value = next;
    if (!this.panel.isConnected) fill(this.root, this.panel);
    this.show();
  }

  show() {
    const { titles, layers, heads, waits, maps } = this.value;
    options(this.measure, Object.entries(titles));
    this.showAnswers();
    this.each.hidden = !waits;
    if (this.shape !== `${layers}.${heads}`) this.build();
    this.shape = `${layers}.${heads}`;
    this.showSwitches(maps?.[this.measure.value]);
    this.caption.textContent = waits || this.hint;
    fill(this.notes, notes(this.value.notes));
  }

  showAnswers() {
    const { titles, rows, off, layers, heads } = this.value,
      chosen = question.off.filter(([layer, head]) => layer < layers && head < heads),
      count = chosen.length,
      isMeasured = `${off}` === `${chosen}`;
    const without = count === 0 ? "Heads off" : count === 1 ? "Without 1 head" : `Without ${count} heads`;
    disable(this.allOn, count === 0 && "No head is off.");
    const lines = Object.entries(titles).map(([name, title]) => {
      const [before, after] = rows[name],
        digits = name === "loss" ? 3 : 4,
        now = [after.toFixed(digits), signed(after - before, digits)];
      return [title, before.toFixed(digits), ...now.map((text) => (count === 0 ? "" : isMeasured ? text : "…"))];
    });
    // The loss, if the text has one; a model that was tuned for a task may have no answer here.
    const [title, before, after, change] = lines.at(-1) ?? [];
    announce("effect", count && title ? [without, title, ` ${before} → ${after} (${change})`] : []);
    const names = Object.entries(titles).map(([name, title]) => withTerms(MARKED[name] ?? title)),
      shown = lines.map(([, ...numbers], k) => [names[k], ...numbers]);
    fill(this.answers, table(["Answer", "All heads", without, "Difference"], shown));
  }

  build() {
    const { layers, heads } = this.value;
    const item = (/** @type {Head} */ [layer, head]) =>
      button("", () => toggle([layer, head]), { class: "b-switch", "data-layer": layer, "data-head": head });
    const attributes = { role: "group", "aria-label": "Heads to switch off" },
      group = el("div.b-switch-grid", attributes, grid(headsOf(0, layers, heads), heads, item));
    group.style.setProperty("--heads", `${heads}`);
    roam(group, heads);
    fill(this.grid, group);
  }

  /** @param {number[][] | undefined} changes */
  showSwitches(changes) {
    const better = this.measure.value === "loss" ? -1 : 1;
    for (const item of this.grid.querySelectorAll("button")) {
      const [layer, head] = headOf(item),
        change = changes?.[layer][head] ?? null;
      fill(item, el("span", change === null ? "" : signed(change, 3)));
      item.style.setProperty("--tint", effect(-better * (change ?? 0)));
      item.ariaPressed = `${isOff([layer, head])}`;
      item.title =
        item.ariaLabel = `Switch off head ${head + 1} of layer ${layer + 1}${change === null ? "" : `, change ${signed(change, 4)}`}`;
    }
  }
}

/** @type {View} */
export const view = (root, context) => draws(new HeadSwitches(root, context));
