// All attention heads as small pictures. The weights come once, as bytes; each head is a button with its picture, in a frame
// of the colour of its fact, so that 144 heads can be pressed, named and reached with the keyboard.

import { colours, legend, pixels } from "../colours.js";
import { keepingFocus, numbered, options, select } from "../controls.js";
import { button, disable, draws, el, fill, note, notes, roam, tools } from "../parts/elements.js";
import { bytesOf } from "../parts/numbers.js";
import { latest } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { choose, draw, drawn, grid, headOf, headsOf, isOff, nearest, onChange } from "./heads.js";

/** @import { Head } from "./heads.js" */
/**
 * @typedef {object} Heads All heads of a model.
 * @property {number} first the number of the first layer, from 0
 * @property {number} layers that are shown
 * @property {number} of the layers of the model
 * @property {number} heads of a layer
 * @property {number} size rows and columns of a head's picture
 * @property {string} weights base64; a byte for each weight, 255 times its root
 * @property {Record<string, (number | null)[][]>} facts numbers by layer and head
 * @property {Record<string, number>} most the largest value that a fact can have, if that is not 1
 * @property {string[][] | null} names the pattern of each head, "" for none; null: they come later
 * @property {string} [unnamed] why they do not come
 * @property {string} [clear] a model to try where no head has a pattern, "" for none; a page that is saved does not say
 * @property {string[]} [notes]
 * @property {string} [caption]
 */

/** @type {Record<string, string>} */
const GLYPHS = { next: "→", previous: "←", same: "=", cls: "C", sep: "S", other: "⇄" };
/** @type {Record<string, string>} */
export const PATTERNS = {
  next: "attends to the next word",
  previous: "attends to the previous word",
  same: "attends to the same word",
  cls: "attends to [CLS]",
  sep: "attends to [SEP]",
  other: "attends to the other sentence",
};
/** @type {Record<string, string>} */
const FACTS = {
  entropy: "Entropy (nats)",
  next: "Weight on the next word",
  previous: "Weight on the previous word",
  same: "Weight on the same word",
  cls: "Weight on [CLS]",
  sep: "Weight on [SEP]",
  other: "Weight on the other sentence",
};
const ONE_LAYER = "One layer at a time is shown: all heads together have too many weights.";
const LABEL_HINT =
  "A head is labelled if its weight there is at least 40% of the way from uniform to 1, and above that of 300 heads " +
  "with random weights.";

/** Its place below a head that is sorted: the layer and the number. @param {Head} head */
const shortOf = ([layer, head]) => `${layer + 1}.${head + 1}`;

/** @param {Head} head */
function headButton([layer, head]) {
  const badges = ["badge", "value", "off"].map((name) => el(`span.b-head-${name}`, { "aria-hidden": "true" })),
    press = () => choose([layer, head]),
    place = { "data-layer": layer, "data-head": head, "data-key": `${layer}.${head}` };
  return button([el("canvas"), badges], press, { class: "b-head", ...place });
}

class HeadGrid {
  /** @type {Heads} */
  value = /** @type {any} */ (null);
  bytes = new Uint8Array();
  built = ""; // the heads whose buttons are on the page, "" for none
  choose = select("Colour the heads by", [], (fact) => draw({ fact, sorted: drawn().sorted && fact !== "" }));
  layer = select("Layer", [], (layer) => ask({ head: [Number(layer), question.head[1]] }));
  layerTool = el("label", "Layer ", this.layer);
  sort = button("Sort", () => draw({ sorted: !drawn().sorted }));
  tools = tools(this.layerTool, el("label", "Colour by ", this.choose), this.sort);
  title = el("h3", { dir: "auto" });
  frame = el("div", { "data-painted": "", onrepaint: () => this.built && this.show() });
  key = el("div");
  notes = el("div");

  /** @param {HTMLElement} root @param {ViewContext} context a page that is saved has no server to answer */
  constructor(root, { options, answer }) {
    this.root = root;
    this.switches = options.switches;
    this.isSaved = !answer;
    this.isBeside = options.beside;
    this.name = latest(async (/** @type {Heads} */ value) => {
      const found = await answer?.("names", Boolean(this.isBeside)).catch(({ message }) => ({ error: message }));
      if (value !== this.value || !found) return;
      Object.assign(value, { names: found.names ?? null, unnamed: found.error });
      this.show();
    });
    onChange(() => this.built && this.show());
  }

  /** @param {Heads & {error?: string} | null} next null: there is no such model, or no sentence */
  draw(next) {
    if (!next?.size) {
      this.built = "";
      const hint = el("p.b-empty", "Type a sentence to see which words each head attends to.");
      fill(this.root, next?.error ? note(next.error, true) : !this.isBeside && !question.text.trim() && hint);
      return;
    }
    const { first, of } = (this.value = next);
    this.bytes = bytesOf(next.weights);
    if (!this.tools.isConnected) fill(this.root, this.title, this.tools, this.frame, this.key, this.notes);
    const named = Object.entries(FACTS).filter(([fact]) => fact in next.facts);
    options(this.choose, [["", "weights only"], ...named]);
    options(this.layer, numbered(of), first);
    fill(this.title, next.caption || (next.layers === of ? "All heads" : `Heads of layer ${first + 1} of ${of}`));
    this.show();
    if (!next.names) this.name(next);
    fill(this.notes, notes([...(next.layers < of ? [ONE_LAYER] : []), ...(next.notes ?? [])]));
  }

  /** The fact that colours the heads; only the second model has the one that compares two models. */
  get fact() {
    const { fact } = drawn();
    return fact in this.value.facts ? fact : "";
  }

  get isSorted() {
    return drawn().sorted && this.fact !== "";
  }

  get most() {
    return this.value.most[this.fact] ?? 1;
  }

  /** @param {Head} head */
  factOf([layer, head]) {
    return this.fact ? this.value.facts[this.fact][layer - this.value.first][head] : null;
  }

  /** @param {Head} head */
  patternOf([layer, head]) {
    return this.value.names?.[layer - this.value.first][head] ?? "";
  }

  /** @param {Head} at */
  nameOf(at) {
    const number = this.factOf(at),
      pattern = this.patternOf(at);
    return (
      `Layer ${at[0] + 1}, head ${at[1] + 1}${pattern ? `: ${PATTERNS[pattern]}` : ""}` +
      (this.fact ? `. ${FACTS[this.fact]}: ${number === null ? "none" : number.toFixed(3)}` : "")
    );
  }

  headsInOrder() {
    const { first, layers, heads } = this.value,
      all = headsOf(first, layers, heads);
    return this.isSorted ? all.sort((a, b) => (this.factOf(b) ?? -1) - (this.factOf(a) ?? -1)) : all;
  }

  /** Buttons for all heads, if other ones are on the page. */
  build() {
    const heads = this.headsInOrder(),
      { first, layers, heads: perRow } = this.value,
      wanted = `${first}.${layers}.${perRow}.${this.isSorted ? heads.join(" ") : ""}`;
    if (wanted === this.built) return;
    this.built = wanted;
    const ofSorted = (/** @type {Head} */ head) => el("div", headButton(head), el("span.b-heads-label", shortOf(head)));
    const group = el(
      this.isSorted ? "div.b-heads.is-sorted" : "div.b-heads",
      { role: "group", "aria-label": "Attention heads" },
      this.isSorted ? heads.map(ofSorted) : grid(heads, perRow, headButton),
    );
    group.style.setProperty("--heads", `${perRow}`);
    roam(group, perRow);
    keepingFocus(this.frame, () => fill(this.frame, group));
  }

  show() {
    const { layers, of, heads } = this.value,
      chosen = nearest(of, heads),
      painted = this.painter(),
      colour = colours();
    this.build();
    this.choose.value = this.fact;
    this.layerTool.hidden = layers === of || this.isSaved;
    disable(this.sort, !this.fact && "Choose another colour first: weights have no order.");
    this.sort.ariaPressed = `${this.isSorted}`;
    for (const item of this.frame.querySelectorAll("button")) {
      const head = headOf(item),
        number = this.factOf(head),
        off = this.switches && isOff(head),
        [canvas, badge, small, cover] = item.children;
      painted(/** @type {HTMLCanvasElement} */ (canvas), head);
      item.classList.toggle("has-fact", number !== null);
      item.style.setProperty("--frame", number === null ? null : colour(number / this.most));
      item.title = item.ariaLabel = `${this.nameOf(head)}${off ? ". Switched off" : ""}`;
      cover.textContent = off ? "off" : "";
      item.ariaPressed = `${`${head}` === `${chosen}`}`;
      badge.textContent = GLYPHS[this.patternOf(head)] ?? "";
      small.textContent = number?.toFixed(2) ?? "";
    }
    fill(this.key, this.legends());
  }

  /** What frames and signs mean. */
  legends() {
    const { names, unnamed } = this.value,
      ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => Number((part * this.most).toFixed(2)));
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const pattern of names?.flat() ?? []) if (pattern) counts.set(pattern, (counts.get(pattern) ?? 0) + 1);
    const found = [...counts].map(([pattern, count]) =>
      el(
        "span",
        el("b", GLYPHS[pattern], " "),
        el("span", PATTERNS[pattern]),
        ": ",
        el("span", count === 1 ? "1 head" : `${count} heads`),
      ),
    );
    const coming = el("p.b-empty", { "data-no-picture": "" }, "The heads get their names…"),
      first = this.isSorted && this.headsInOrder()[0];
    return [
      first &&
        el(
          "p.b-empty",
          `Below each head: its layer and its number. ${shortOf(first)} is head ${first[1] + 1} of layer ${first[0] + 1}.`,
        ),
      this.fact && legend(`Frame: ${FACTS[this.fact]}`, ticks, (number) => number / this.most),
      found.length > 0 && el("div.b-legend", found, el("span", LABEL_HINT)),
      !names && (unnamed ? note(unnamed, true) : coming),
      names && !found.length && this.value.clear !== undefined && this.none(),
    ];
  }

  /** No head has a pattern. */
  none() {
    const { clear, layers, of } = this.value,
      press = () => ask({ model: clear, step: null });
    return [
      el("p.b-empty", `No head of this ${layers === of ? "model" : "layer"} stands out in these sentences.`),
      clear && tools(button(["Try ", el("bdi", clear)], press)),
    ];
  }

  /** A function that paints a head's weights. */
  painter() {
    const { size, first, heads } = this.value,
      image = new ImageData(size, size),
      cells = new Uint32Array(image.data.buffer),
      shades = pixels();
    return (/** @type {HTMLCanvasElement} */ canvas, /** @type {Head} */ [layer, head]) => {
      const start = ((layer - first) * heads + head) * cells.length;
      cells.forEach((_, cell) => (cells[cell] = shades[this.bytes[start + cell]]));
      canvas.width = canvas.height = size;
      canvas.getContext("2d")?.putImageData(image, 0, 0);
    };
  }
}

/** @type {View} */
export const view = (root, context) => draws(new HeadGrid(root, context));
