// Heads as switches: the model's answers without the heads that are off, and the change of each answer without each head.

import "./asked_heads.js";
import { effect, effectLegend } from "../colours.js";
import { disable, el, note, roam } from "../parts/elements.js";
import { on, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { asking } from "../views.js";

/** @typedef {[layer: number, head: number]} Head counted from 0 */
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

const MINUS = "\u2212";
const input = () =>
  JSON.stringify(["model", "step", "newest", "text", "pair", "hidden", "off"].map((key) => question[key]));

/** @param {number} change @param {number} digits */
function signed(change, digits) {
  const text = Math.abs(change).toFixed(digits);
  return Number(text) === 0 ? text : `${change < 0 ? MINUS : "+"}${text}`;
}

/**
 * Fill a list of choices, and keep the one that is chosen.
 * @param {HTMLSelectElement} select @param {[key: string | number, text: string][]} pairs
 */
function fill(select, pairs) {
  const choices = JSON.stringify(pairs);
  if (select.dataset.choices === choices) return;
  const kept = select.value;
  select.replaceChildren(...pairs.map(([key, text]) => el("option", { value: key }, text)));
  select.dataset.choices = choices;
  if (pairs.some(([key]) => `${key}` === kept)) select.value = kept;
}

/** @type {View} */
export function view(root, { server, options }) {
  const measure = el("select", { "aria-label": "What the map shows" });
  const table = el("tbody", {}),
    without = el("th", { scope: "col" });
  const allOn = el("button", { class: "b-small" }, "Switch all on");
  const each = el("button", { class: "b-small" }, "Switch off one head at a time");
  const grid = el("div", {}),
    caption = el("p", { class: "b-empty" }),
    notes = el("div", {});
  const panel = el(
    "div",
    { class: "b-switches" },
    el(
      "section",
      {},
      el("h3", {}, "What the model answers"),
      el("div", { class: "b-tools", "data-no-picture": "" }, allOn),
      el(
        "table",
        { class: "b-answers" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, "Answer"),
            el("th", { scope: "col" }, "All heads"),
            without,
            el("th", { scope: "col" }, "Change"),
          ),
        ),
        table,
      ),
    ),
    el(
      "section",
      {},
      el("h3", {}, "Without each head alone"),
      el("div", { class: "b-tools", "data-no-picture": "" }, el("label", {}, "Change of ", measure), each),
      grid,
      effectLegend(String),
      caption,
      notes,
    ),
  );
  /** @type {Switches} */
  let value;
  let shape = "";

  measure.addEventListener("change", show);
  allOn.addEventListener("click", () => ask({ off: [] }));
  each.addEventListener("click", () => {
    caption.textContent = "Measuring…";
    measureEach();
  });
  const measureEach = asking(root, async () => {
    const asked = input();
    const found = await server.measure(visitor.token, { ...question, hidden: question.hidden ?? [] });
    if (asked === input()) draw(found);
    else if (panel.isConnected) show();
  });

  /** @param {Head} head */
  const isThere = ([layer, head]) => layer < value.layers && head < value.heads;
  const count = () => question.off.filter(isThere).length;
  on("question", ({ changed }) => {
    if (changed.has("off") && panel.isConnected) show();
  });

  /** @param {number} layer @param {number} head */
  const isOff = (layer, head) => question.off.some(([l, h]) => l === layer && h === head);

  /** @param {number} layer @param {number} head */
  function toggle(layer, head) {
    ask({
      off: isOff(layer, head)
        ? question.off.filter(([l, h]) => l !== layer || h !== head)
        : [...question.off, [layer, head]],
    });
  }

  function build() {
    const group = el("div", { class: "b-switch-grid", role: "group", "aria-label": "Heads to switch off" });
    group.style.setProperty("--heads", `${value.heads}`);
    for (let layer = 0; layer < value.layers; layer += 1) {
      group.append(el("span", { class: "b-heads-label", "aria-hidden": "true" }, `Layer ${layer + 1}`));
      for (let head = 0; head < value.heads; head += 1) {
        const item = el("button", { class: "b-switch", "data-layer": layer, "data-head": head });
        item.addEventListener("click", () => toggle(layer, head));
        group.append(item);
      }
    }
    roam(group, value.heads);
    grid.replaceChildren(group);
  }

  /** @param {string} name @param {string} title */
  function answer(name, title) {
    const [before, after] = value.rows[name];
    const digits = name === "loss" ? 3 : 4;
    /** @param {string} text */
    const measured = (text) =>
      el("td", {}, !count() ? "" : `${value.off}` === `${question.off.filter(isThere)}` ? text : "…");
    return el(
      "tr",
      {},
      el("th", { scope: "row" }, el("bdi", {}, title)),
      el("td", {}, before.toFixed(digits)),
      measured(after.toFixed(digits)),
      measured(signed(after - before, digits)),
    );
  }

  /** @param {number[][] | undefined} changes */
  function showSwitches(changes) {
    const better = measure.value === "loss" ? -1 : 1;
    for (const item of grid.querySelectorAll("button")) {
      const layer = Number(item.dataset.layer),
        head = Number(item.dataset.head),
        change = changes?.[layer][head] ?? null;
      item.textContent = change === null || item.offsetWidth < 40 ? "" : signed(change, 3);
      item.style.setProperty("--tint", effect(-better * (change ?? 0)));
      item.setAttribute("aria-pressed", `${isOff(layer, head)}`);
      item.title = `Switch off head ${head + 1} of layer ${layer + 1}${change === null ? "" : `, change ${signed(change, 4)}`}`;
      item.setAttribute("aria-label", item.title);
    }
  }

  function show() {
    fill(measure, Object.entries(value.titles));
    const off = count();
    without.textContent = off === 0 ? "Heads off" : off === 1 ? "Without 1 head" : `Without ${off} heads`;
    disable(allOn, off === 0 && "No head is off.");
    each.hidden = !value.waits;
    table.replaceChildren(...Object.entries(value.titles).map(([name, title]) => answer(name, title)));
    const wanted = `${value.layers}.${value.heads}`;
    if (shape !== wanted) build();
    shape = wanted;
    showSwitches(value.maps?.[measure.value]);
    caption.textContent = value.waits || options.hint;
    notes.replaceChildren(...value.notes.map((text) => note(text)));
  }

  function draw(/** @type {Switches & {error?: string} | null} */ next) {
    if (!next?.titles) {
      root.replaceChildren(...(next?.error ? [note(next.error, true)] : []));
      return;
    }
    value = next;
    if (!panel.isConnected) root.replaceChildren(panel);
    show();
  }
  return draw;
}
