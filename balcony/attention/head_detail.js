// One layer of attention in detail: a head as a map of words, or heads as lines between words.

import { level } from "../colours.js";
import { keepingFocus } from "../controls.js";
import { bringIn, button, draws, el, fill, note, roam, showError, tools } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { bytesOf, floats, headName } from "../parts/numbers.js";
import { unfolded } from "../parts/row.js";
import { colourOf, HeadLines } from "./head_lines.js";
import { latest, orError } from "../frame/page.js";
import { draw, drawn, nearest, onChange } from "./heads.js";

/** @typedef {any} Detail see `attention_values` in bert_core/show.py */

// The last one is shown by a view of its own, head_births.js.
const MODES = { map: "One head", lines: "Lines", steps: "Over the steps" };
const MOST_OF_LINE = 5; // weights
const AXES = "A row is the word that attends, a column the word it attends to.";
const HINT =
  "Point at a cell to read the weight, click a word for its largest weights, Ctrl-click another one for both.";
const LINES_HINT =
  "Words on the left attend to words on the right; point at a word to see its lines alone, click it to keep them, Ctrl-click another one to keep both.";
const CHIPS = { role: "group", "aria-label": "Heads that are drawn", title: "Click a head to show or hide it" };

const written = (weight) => (weight > 0 && weight < 0.0005 ? "<0.001" : weight.toFixed(3));

class HeadDetail {
  /** @type {Detail} */
  value = {};
  weights = new Float32Array(); // of all heads
  width = 0;
  drawings = 0; // of the map, and presses on its cells: what a press opened belongs to one drawing
  tabs = Object.entries(MODES).map(([mode, text]) =>
    button(text, () => draw({ mode }), { role: "tab", "data-mode": mode }),
  );
  chips = el("div");
  title = el("h3.b-map-title");
  map = heatMap();
  cell = el("div", { "data-no-picture": "" });
  lines = new HeadLines();
  linesHint = el("p.b-readout", LINES_HINT);
  body = el("div", { role: "tabpanel", tabindex: -1 });

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options, answer }) {
    this.root = root;
    this.unfolds = options.is_first && answer;
    const tabs = this.tabs.filter(({ dataset }) => this.unfolds || dataset.mode !== "steps"),
      tablist = roam(el("div.b-tools", { role: "tablist", "aria-label": "How attention is drawn" }, tabs));
    this.tools = tools(tablist, this.chips);
    this.unfold = latest(async (/** @type {number} */ i, /** @type {number} */ j) => {
      const drawing = (this.drawings += 1),
        found = answer && (await orError(answer("unfold", ...this.head)));
      if (drawing === this.drawings) this.showCell(found, i, j);
    });
    onChange(() => this.tools.isConnected && this.show());
    new ResizeObserver(() => {
      const { clientWidth } = this.body;
      if (drawn().mode === "lines" && clientWidth && clientWidth !== this.width) this.show();
    }).observe(this.body);
  }

  get head() {
    return nearest(this.value.layers, this.value.heads);
  }

  draw(next) {
    const { root, tools, title, body } = this;
    if (!next?.tokens) return showError(root, next);
    this.value = next;
    this.weights = Float32Array.from(new Uint16Array(bytesOf(next.weights).buffer), (weight) => weight / 65535);
    if (!tools.isConnected) fill(root, tools, title, body);
    this.show();
  }

  show() {
    const mode = drawn().mode in MODES ? drawn().mode : "map", // an address may have anything
      [layer, head] = this.head;
    this.width = this.body.clientWidth;
    for (const tab of this.tabs) tab.ariaSelected = `${tab.dataset.mode === mode}`;
    this.body.ariaLabel = MODES[mode];
    this.chips.hidden = mode !== "lines";
    if (mode === "steps" && this.unfolds) return [this.title, this.body].map((part) => fill(part));
    if (mode === "lines") return this.showLines(layer);
    this.title.textContent = headName([layer, head]);
    this.drawMap(this.matrix(layer, head));
  }

  showLines(layer) {
    const { tokens, heads: count } = this.value,
      { active } = drawn(),
      chosen = new Set(Array.isArray(active) ? active : [this.head[1]]), // an address may have anything
      all = [...Array(count).keys()],
      heads = all.filter((head) => chosen.has(head)),
      names = heads.map((head) => head + 1).join(", ") || "none";
    const chips = all.map((head) => {
      const press = () => draw({ active: all.filter((each) => chosen.has(each) !== (each === head)) }),
        attributes = { class: "b-chip", "aria-label": `Head ${head + 1}`, "aria-pressed": chosen.has(head) },
        chip = button(`${head + 1}`, press, attributes);
      chip.style.setProperty("--chip", colourOf(head));
      return chip;
    });
    const group = roam(
      el(
        "div.b-tools",
        CHIPS,
        button("All", () => draw({ active: all })),
        chips,
      ),
    );
    keepingFocus(this.chips, () => fill(this.chips, group));
    this.title.textContent = `Layer ${layer + 1}, ${heads.length === 1 ? "head" : "heads"} ${names}`;
    fill(this.body, this.lines.element, this.linesHint);
    this.lines.draw(tokens, new Map(heads.map((head) => [head, this.matrix(layer, head)])));
  }

  /** The weights of a head. @param {number} layer @param {number} head */
  matrix(layer, head) {
    const size = this.value.tokens.length ** 2,
      at = layer * this.value.heads + head;
    return this.weights.subarray(at * size, (at + 1) * size);
  }

  drawMap(matrix) {
    const { tokens, segments } = this.value,
      n = tokens.length,
      second = segments.indexOf(1),
      { unfolds } = this;
    const line = (/** @type {number} */ i, /** @type {number} */ j) => {
      const weights = tokens.map((token, k) => /** @type {const} */ ([token, matrix[j < 0 ? i * n + k : k * n + j]])),
        most = weights.sort(([, a], [, b]) => b - a).slice(0, MOST_OF_LINE);
      return [
        el("bdi", tokens[Math.max(i, j)]),
        j < 0 ? " attends most to " : " gets most attention from ",
        most.map(([token, weight], k) => [k > 0 && ", ", el("bdi", token), ` ${written(weight)}`]),
      ];
    };
    this.drawings += 1;
    fill(this.cell);
    if (!this.map.element.isConnected) fill(this.body, this.map.element, this.cell);
    this.map.draw({
      rows: tokens,
      columns: tokens,
      values: matrix,
      measure: "Weight",
      level,
      border: second > 0 ? second : undefined,
      press: unfolds ? (i, j) => this.unfold(i, j) : undefined,
      label: `${this.title.textContent}; the arrow keys go from cell to cell`,
      axes: AXES,
      hint: unfolds ? `${HINT} Click a cell to see how its weight is computed.` : HINT,
      line,
      describe: (i, j) => [el("bdi", tokens[i]), " → ", el("bdi", tokens[j]), `: ${written(matrix[i * n + j])}`],
    });
  }

  /** How a weight of the map comes about, below it. @param {any} found the vectors of the head @param {number} i @param {number} j */
  showCell(found, i, j) {
    if (found.error) return fill(this.cell, note(found.error, true));
    // Hidden [CLS] and [SEP] take part in the row all the same.
    const all = found.tokens.length === this.value.tokens.length ? [...found.tokens.keys()] : found.words,
      [query, key, value] = [found.query, found.key, found.value].map(floats);
    fill(this.cell, unfolded({ tokens: found.tokens, query, key, value }, all[i], all[j]));
    bringIn(this.cell);
  }
}

/** @type {View} */
export const view = (root, context) => draws(new HeadDetail(root, context));
