// All attention heads as small pictures. The weights come once, as bytes; each head is a button with its picture, or with
// what changes without it, so that 144 heads can be pressed, named and reached with the keyboard.

import { effect, effectLegend, pixels } from "../colours.js";
import { keepingFocus, select } from "../controls.js";
import { button, draws, el, fill, note, notes, roam, tools } from "../parts/elements.js";
import { bytesOf, headName, signed } from "../parts/numbers.js";
import { latest, orError } from "../frame/page.js";
import { question } from "../frame/question.js";
import { choose, draw, drawn, headsOf, isOff, nearest, onChange } from "./heads.js";

/** @typedef {Record<string, any>} Heads see `attention_values` in bert_core/show.py; what comes later is kept there, too */

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
/** What changes when a head alone is switched off. @type {Record<string, string>} */
const EFFECTS = {
  word: "Change without it: the word's probability",
  is_next: "Change without it: P(IsNext)",
  loss: "Change without it: the MLM loss",
};
const NO_EFFECT = "Nothing to show: the model or the text has no such answer, or it would take minutes.";
const EFFECT_HINT =
  "A head helped if the probability is lower or the loss higher without it. Other heads can take over the part of one " +
  "that is off: a small change does not show that it does nothing.";
const LABEL_HINT =
  "A head is labelled if its weight there is at least 40% of the way from uniform to 1, and above that of 300 heads " +
  "with random weights.";

const label = (name) => el("span.b-heads-label", { "aria-hidden": "true" }, name);

function headButton([layer, head]) {
  const badges = ["badge", "value", "off"].map((name) => el(`span.b-head-${name}`, { "aria-hidden": "true" }));
  return button([el("canvas"), badges], () => choose([layer, head]), { class: "b-head" });
}

class HeadGrid {
  /** @type {Heads} */
  value = {};
  bytes = new Uint8Array();
  built = ""; // layers and heads whose buttons are on the page, "" for none
  choose = select("Colour the heads by", [["", "weights only"], ...Object.entries(EFFECTS)], (effect) => {
    if (this.value.effects?.error) this.value.effects = null; // so that it is asked again
    draw({ effect });
  });
  tools = tools(el("label", "Colour by ", this.choose));
  title = el("h3", { dir: "auto" });
  frame = el("div", { "data-painted": "", onrepaint: () => this.built && this.show() });
  key = el("div");
  notes = el("div");

  /** @param {HTMLElement} root @param {ViewContext} context a page that is saved has no server to answer */
  constructor(root, { options, answer }) {
    this.root = root;
    this.isSaved = !answer;
    this.isBeside = Boolean(options.beside);
    /** A question about what takes longer; its answer belongs to these heads. @param {string} name @param {(found: any) => Partial<Heads>} more */
    const later = (name, more) =>
      latest(async (/** @type {Heads} */ value) => {
        if (!answer) return;
        Object.assign(value, more(await orError(answer(name, this.isBeside))));
        if (value === this.value) this.show();
      });
    this.name = later("names", ({ names = null, error }) => ({ names, unnamed: error }));
    this.measure = later("effects", (effects) => ({ effects }));
    onChange(() => this.built && this.show());
  }

  /** @param {Heads | null} next null: there is no such model, or no sentence */
  draw(next) {
    if (!next?.size) {
      this.built = "";
      const hint = el("p.b-empty", "Type a sentence to see which words each head attends to.");
      fill(this.root, next?.error ? note(next.error, true) : !this.isBeside && !question.text.trim() && hint);
      return;
    }
    this.value = next;
    this.bytes = bytesOf(next.weights);
    const parts = [this.title, !this.isSaved && this.tools, this.frame, this.key, this.notes];
    if (!this.frame.isConnected) fill(this.root, parts);
    fill(this.title, next.caption || "All heads");
    this.show();
    if (!next.names) this.name(next);
    fill(this.notes, notes(next.notes ?? []));
  }

  /** What the heads show instead of their weights, "" for nothing. */
  get effect() {
    const name = drawn().effect;
    return name in EFFECTS && !this.isSaved ? name : "";
  }

  /** What changes without a head, null where that is not known. */
  changeOf([layer, head]) {
    return this.value.effects?.changes?.[this.effect]?.[layer][head] ?? null;
  }

  /** Buttons for all heads, under their numbers and beside their layers, if other ones are on the page. */
  build() {
    const { layers, heads } = this.value,
      wanted = `${layers}.${heads}`;
    if (wanted === this.built) return;
    this.built = wanted;
    const group = el(
      "div.b-heads",
      { role: "group", "aria-label": "Attention heads" },
      ["Head", ...Array.from({ length: heads }, (_, head) => `${head + 1}`)].map(label),
      headsOf(layers, heads).map((at) => [at[1] === 0 && label(`Layer ${at[0] + 1}`), headButton(at)]),
    );
    group.style.setProperty("--heads", `${heads}`);
    roam(group, heads);
    keepingFocus(this.frame, () => fill(this.frame, group));
  }

  show() {
    const { layers, heads } = this.value,
      all = headsOf(layers, heads),
      chosen = nearest(layers, heads),
      painted = this.painter();
    if (this.effect && !this.value.effects) {
      this.value.effects = {};
      this.measure(this.value);
    }
    this.build();
    this.choose.value = this.effect;
    [...this.frame.querySelectorAll("button")].forEach((item, k) => {
      const head = all[k],
        change = this.changeOf(head),
        worse = this.effect === "loss" ? 1 : -1,
        pattern = this.value.names?.[head[0]][head[1]],
        name = headName(head) + (pattern ? `: ${PATTERNS[pattern]}` : ""),
        said = this.effect && `. ${EFFECTS[this.effect]}: ${change === null ? "none" : signed(change, 4)}`,
        off = !this.isBeside && isOff(head),
        [canvas, badge, value, cover] = item.children;
      painted(/** @type {HTMLCanvasElement} */ (canvas), k);
      item.classList.toggle("has-effect", this.effect !== "");
      item.style.setProperty("--frame", change === null ? null : effect(worse * change));
      item.title = item.ariaLabel = `${name}${said}${off ? ". Switched off" : ""}`;
      value.textContent = change === null ? "" : signed(change, 3);
      cover.textContent = off ? "off" : "";
      item.ariaPressed = `${`${head}` === `${chosen}`}`;
      badge.textContent = GLYPHS[pattern] ?? "";
    });
    fill(this.key, this.legends());
  }

  /** What colours and signs mean. */
  legends() {
    const { names, unnamed, effects } = this.value,
      found = [...new Set(names?.flat())].filter(Boolean),
      coming = el("p.b-empty", { "data-no-picture": "" }, "The heads get their names…");
    const signs = found.map((pattern) => el("span", el("b", GLYPHS[pattern], " "), el("span", PATTERNS[pattern])));
    return [
      this.effect && this.effectLegends(effects ?? {}),
      found.length > 0 && el("div.b-legend", signs, el("span", LABEL_HINT)),
      !names && (unnamed ? note(unnamed, true) : coming),
      names && !found.length && el("p.b-empty", "No head of this model stands out in these sentences."),
    ];
  }

  /** @param {{changes?: Record<string, number[][]>, error?: string}} effects nothing before they have come */
  effectLegends({ changes, error }) {
    if (error) return note(error, true);
    if (!changes) return el("p.b-empty", { "data-no-picture": "" }, "Measuring…");
    if (!(this.effect in changes)) return note(NO_EFFECT);
    return [effectLegend((loss) => `${Math.abs(loss)}`), el("p.b-empty", EFFECT_HINT)];
  }

  /** A function that paints the weights of the head with a number. */
  painter() {
    const { size } = this.value,
      image = new ImageData(size, size),
      cells = new Uint32Array(image.data.buffer),
      shades = pixels();
    return (/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ k) => {
      cells.forEach((_, cell) => (cells[cell] = shades[this.bytes[k * cells.length + cell]]));
      canvas.width = canvas.height = size;
      canvas.getContext("2d")?.putImageData(image, 0, 0);
    };
  }
}

/** @type {View} */
export const view = (root, context) => draws(new HeadGrid(root, context));
