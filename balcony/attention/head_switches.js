// The switch of the shown head, and the model's answers with and without the heads that are off.

import { button, disable, el, fill, notes, showError, withTerms } from "../parts/elements.js";
import { signed, toggled } from "../parts/numbers.js";
import { ask, question } from "../frame/question.js";
import { isOff, nearest, onChange } from "./heads.js";

/** @typedef {Record<string, any>} Switches see switches_value in balcony/attention/values.py */

const TITLES = { is_next: "P([[IsNext]]) of the pair", loss: "[[MLM]] [[loss]] on the corpus" };

/** @type {View} */
export function view(root) {
  /** @type {Switches | null} */
  let value = null;
  const chosen = () => nearest(value?.layers, value?.heads),
    one = button("", () => ask({ off: toggled(question.off, chosen()) })),
    all = button("Switch all on", () => ask({ off: [] })),
    answers = el("div.b-answers", { role: "status" }),
    more = el("div");

  /** The answers with all heads, and without those that are off. @param {Switches} value @param {number[][]} off */
  const lines = ({ rows, answer, off: measured }, off) =>
    Object.entries(rows).map(([name, [before, after]]) => {
      const digits = name === "loss" ? 3 : 4,
        now = `${measured}` === `${off}` ? `${after.toFixed(digits)} (${signed(after - before, digits)})` : "…",
        title = name === "word" ? `Probability of “${answer}” at its position` : withTerms(TITLES[name]);
      return el("span", title, ": ", before.toFixed(digits), off.length > 0 && ` → ${now}`);
    });

  function show() {
    if (!value?.rows) return;
    const { layers, heads } = value,
      off = question.off.filter(([layer, head]) => layer < layers && head < heads),
      without = off.length === 1 ? "Without 1 head" : `Without ${off.length} heads`;
    one.textContent = isOff(chosen()) ? "Switch this head on" : "Switch this head off";
    disable(all, !off.length && "No head is off.");
    fill(answers, el("strong", off.length ? without : "With all heads"), lines(value, off));
    fill(more, notes(value.notes));
  }
  onChange(show);
  return (/** @type {Switches | null} */ next) => {
    value = next;
    if (!next?.rows) return showError(root, next);
    if (!answers.isConnected) fill(root, el("div.b-tools", { "data-no-picture": "" }, one, all), answers, more);
    show();
  };
}
