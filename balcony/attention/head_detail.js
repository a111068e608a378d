// One layer of attention in detail: a head as a map of words, heads as lines between words, averages over heads.

import { level } from "../colours.js";
import { select } from "../controls.js";
import { button, draws, el, fill, roam, showError, tools } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { bytesOf, headName, toggled } from "../parts/numbers.js";
import { colourOf, headLines } from "./head_lines.js";
import { announce, on } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { draw, drawn, isOff, onChange } from "./heads.js";

/**
 * @typedef {object} Layer
 * @property {string[]} tokens
 * @property {number[]} segments 0 or 1 for each token
 * @property {number} layer
 * @property {number} head
 * @property {number} first the number of the first layer in averages and rollout
 * @property {number} heads of a layer
 * @property {string} weights of the layer's heads, base64; two bytes for each weight, as in averages and rollout
 * @property {string} averages over the heads of each layer
 * @property {string} rollout up to each layer
 * @property {string} mean over all heads of all layers
 */

// The last one is shown by a view of its own, head_births.js.
const MODES = { map: "One head", lines: "Lines", average: "Average", steps: "Over the steps" };
const FILTERS = ["all words", "A → A", "A → B", "B → A", "B → B"];
const MEANS = { heads: "the heads of the layer", all: "all heads and layers", rollout: "rollout up to the layer" };
const MEANS_HINTS = {
  heads: "The mean over the heads of this layer.",
  all: "The mean over all heads of all layers.",
  rollout:
    "Attention rollout (Abnar & Zuidema 2020): attention multiplied through the layers up to this one, half of " +
    "each replaced by the residual path.",
};
const MOST_OF_LINE = 5; // weights
const AXES = "A row is the word that attends, a column the word it attends to.";
const HINT =
  "Point at a cell to read the weight, click a word for its largest weights, Ctrl-click another one for both.";
const LINES_HINT =
  "Words on the left attend to words on the right; point at a word to see its lines alone, click it to keep them, Ctrl-click another one to keep both.";
const CHIPS_HINT = "Click a head to show or hide it; double-click or Shift-click it to see it alone";

/** @param {number} weight */
const written = (weight) => (weight > 0 && weight < 0.0005 ? "<0.001" : weight.toFixed(3));

/** Weights from base64, two bytes each; 65535 stands for 1. @param {string} text */
const unpacked = (text) => Float32Array.from(new Uint16Array(bytesOf(text).buffer), (weight) => weight / 65535);

class HeadDetail {
  /** @type {Layer} */
  value = /** @type {any} */ (null);
  /** The weights of the layer's heads, and the averages. @type {Record<"weights" | "averages" | "rollout" | "mean", Float32Array>} */
  all = /** @type {any} */ ({});
  width = 0;
  tabs = Object.entries(MODES).map(([mode, text]) =>
    button(text, () => draw({ mode }), { role: "tab", "data-mode": mode }),
  );
  limit = el("output");
  threshold = el("input", {
    type: "range",
    min: 0,
    max: 0.5,
    step: 0.01,
    "aria-label": "Hide weights below",
    oninput: () => draw({ threshold: Number(this.threshold.value) }),
  });
  least = el("label", "Hide weights below ", this.threshold, this.limit);
  filter = select(
    "Lines between",
    FILTERS.map((text) => [text, text]),
    (filter) => draw({ filter }),
  );
  mean = select("Average over", Object.entries(MEANS), (mean) => draw({ mean }));
  chips = el("div.b-tools", { role: "group", "aria-label": "Heads that are drawn", title: CHIPS_HINT });
  extra = el("div.b-tools");
  title = el("h3.b-map-title");
  without = button("", () => ask({ off: toggled(question.off, [this.value.layer, this.value.head]) }));
  effect = el("p.b-empty", { role: "status" });
  map = heatMap();
  lines = headLines();
  linesHint = el("p.b-readout", LINES_HINT);
  body = el("div", { role: "tabpanel", tabindex: -1 });

  /** @param {HTMLElement} root @param {boolean} unfolds whether a press on a cell shows how it is computed */
  constructor(root, unfolds) {
    this.root = root;
    this.unfolds = unfolds;
    const tabs = this.tabs.filter(({ dataset }) => unfolds || dataset.mode !== "steps"),
      tablist = roam(el("div.b-tools", { role: "tablist", "aria-label": "How attention is drawn" }, tabs));
    this.tools = tools(tablist, this.least, this.extra);
    on("effect", ([without, what, change]) => {
      fill(this.effect, without && [el("span", without), ": ", el("span", what), change]);
    });
    onChange(() => {
      if (!this.tools.isConnected) return;
      // A head of the same layer needs no answer from the server.
      const [layer, head] = question.head;
      if (layer === this.value.layer && head < this.value.heads) this.value.head = head;
      this.show();
    });
    new ResizeObserver(() => {
      const { clientWidth } = this.body;
      if (drawn().mode === "lines" && clientWidth && clientWidth !== this.width) this.show();
    }).observe(this.body);
  }

  /** @param {Layer & {error?: string} | null} next */
  draw(next) {
    const { root, tools, title, body } = this;
    if (!next?.tokens) return showError(root, next);
    this.value = { ...next };
    for (const name of /** @type {const} */ (["weights", "averages", "rollout", "mean"]))
      this.all[name] = unpacked(next[name]);
    if (!tools.isConnected) fill(root, tools, title, body);
    this.show();
  }

  show() {
    const { mode, threshold, filter, mean } = drawn();
    this.width = this.body.clientWidth;
    for (const tab of this.tabs) tab.ariaSelected = `${tab.dataset.mode === mode}`;
    this.body.ariaLabel = MODES[mode];
    this.threshold.value = `${threshold}`;
    this.limit.textContent = threshold.toFixed(2);
    this.filter.value = filter;
    this.mean.value = mean;
    this.least.hidden = mode === "steps" && this.unfolds;
    if (this.least.hidden) [this.extra, this.title, this.body].map((part) => fill(part));
    else if (mode === "lines") this.showLines();
    else if (mode === "average") this.showAverage();
    else this.showHead();
  }

  showHead() {
    const { layer, head } = this.value;
    this.without.textContent = isOff([layer, head]) ? "Switch this head on" : "Switch this head off";
    fill(this.extra, this.unfolds && [this.without, this.effect]);
    this.title.textContent = headName([layer, head]);
    this.drawMap(this.matrix("weights", head), AXES);
  }

  showLines() {
    const { tokens, segments, layer } = this.value,
      heads = this.active().sort((a, b) => a - b);
    this.showChips();
    fill(this.extra, this.chips, segments.includes(1) && el("label", "Lines ", this.filter));
    const names = heads.map((head) => head + 1).join(", ") || "none";
    this.title.textContent = `Layer ${layer + 1}, ${heads.length === 1 ? "head" : "heads"} ${names}`;
    fill(this.body, this.lines.element, this.linesHint);
    this.lines.draw(tokens, segments, new Map(heads.map((head) => [head, this.matrix("weights", head)])));
  }

  showAverage() {
    const { layer, first } = this.value,
      { mean } = drawn();
    fill(this.extra, el("label", "Average over ", this.mean));
    this.title.textContent = {
      heads: `Layer ${layer + 1}, mean of its heads`,
      all: "Mean of all heads and layers",
      rollout: `Rollout up to layer ${layer + 1}`,
    }[mean];
    const matrix =
      mean === "all" ? this.all.mean : this.matrix(mean === "heads" ? "averages" : "rollout", layer - first);
    this.drawMap(matrix, `${MEANS_HINTS[mean]} ${AXES}`);
  }

  /** @param {"weights" | "averages" | "rollout"} name @param {number} index */
  matrix(name, index) {
    const size = this.value.tokens.length ** 2;
    return this.all[name].subarray(index * size, (index + 1) * size);
  }

  /** The heads that are drawn as lines. */
  active() {
    const { active } = drawn(),
      shown = Array.isArray(active) ? active : [this.value.head]; // an address may have anything
    return [...new Set(shown)].filter((head) => head < this.value.heads);
  }

  /** @param {Float32Array} matrix @param {string} axes */
  drawMap(matrix, axes) {
    const { tokens, segments } = this.value,
      n = tokens.length,
      second = segments.indexOf(1),
      unfolds = this.unfolds && drawn().mode === "map";
    const line = (/** @type {number} */ i, /** @type {number} */ j) => {
      const weights = tokens.map((token, k) => /** @type {const} */ ([token, matrix[j < 0 ? i * n + k : k * n + j]])),
        most = weights.sort(([, a], [, b]) => b - a).slice(0, MOST_OF_LINE);
      return [
        el("bdi", tokens[Math.max(i, j)]),
        j < 0 ? " attends most to " : " gets most attention from ",
        most.map(([token, weight], k) => [k > 0 && ", ", el("bdi", token), ` ${written(weight)}`]),
      ];
    };
    if (!this.map.element.isConnected) fill(this.body, this.map.element);
    this.map.draw({
      rows: tokens,
      columns: tokens,
      values: matrix,
      measure: "Weight",
      level,
      least: drawn().threshold,
      border: second > 0 ? second : undefined,
      press: unfolds ? (i, j) => this.unfold(i, j) : undefined,
      label: `${this.title.textContent}; the arrow keys go from cell to cell`,
      axes,
      hint: unfolds ? `${HINT} Click a cell to see how its weight is computed.` : HINT,
      line,
      describe: (i, j) => [el("bdi", tokens[i]), " → ", el("bdi", tokens[j]), `: ${written(matrix[i * n + j])}`],
    });
  }

  /** @param {number} i @param {number} j */
  unfold(i, j) {
    const { layer, head, tokens } = this.value;
    announce("unfold", { head: [layer, head], tokens: tokens.length, i, j });
  }

  showChips() {
    const all = Array.from({ length: this.value.heads }, (_, head) => head);
    if (this.chips.children.length !== all.length + 1) {
      const every = button("All", () => draw({ active: all })),
        chips = all.map((head) => this.chip(head));
      fill(this.chips, every, chips);
      roam(this.chips);
    }
    const active = this.active();
    [...this.chips.children].slice(1).forEach((chip, head) => (chip.ariaPressed = `${active.includes(head)}`));
  }

  /** @param {number} head */
  chip(head) {
    const toggle = (/** @type {boolean} */ isAlone) => {
      const active = this.active(),
        others = active.filter((each) => each !== head);
      draw({ active: isAlone ? [head] : others.length < active.length ? others : [...active, head] });
    };
    const chip = button(`${head + 1}`, (event) => toggle(event.shiftKey), {
      class: "b-chip",
      "aria-label": `Head ${head + 1}`,
      ondblclick: () => toggle(true),
    });
    chip.style.setProperty("--chip", colourOf(head));
    return chip;
  }
}

/** @type {View} */
export const view = (root, { options }) => draws(new HeadDetail(root, Boolean(options.unfolds)));
