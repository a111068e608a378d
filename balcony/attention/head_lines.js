// The heads of a layer as lines between its words: those that attend on the left, those attended to on the right.

import { button, el, fill, roam, svg } from "../parts/elements.js";
import { has, toggled } from "../parts/numbers.js";

/** @typedef {[side: 0 | 1, index: number]} Word on the left, which attends, or on the right, which is attended to */

const LINES_FROM = 0.02,
  LEAST = 0.002, // the same with the lines of one word
  LEAST_MEAN = 0.0005; // of a word's weights that is written beside it
const ACROSS = 240; // pixels between the words, before the drawing is on the page
const MANY = 40; // words, which stand closer

export const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;

export class HeadLines {
  element = el("div.b-lines");
  drawing = svg("svg");
  /** @type {HTMLElement[]} */
  sides = [];
  /** @type {string[]} */
  tokens = [];
  /** Weights by head, word by word. @type {Map<number, Float32Array>} */
  heads = new Map();
  height = 0;
  /** The words that were pressed, two with Ctrl. @type {Word[]} */
  pinned = [];

  /** @param {string[]} tokens @param {Map<number, Float32Array>} heads */
  draw(tokens, heads) {
    Object.assign(this, { tokens, heads, height: tokens.length > MANY ? 18 : 24 });
    this.drawing = svg("svg", { height: tokens.length * this.height, width: "100%", "aria-hidden": "true" });
    const side = (kind, name, k) =>
      roam(
        el(
          `div.b-line-side${kind}`,
          { role: "group", "aria-label": name },
          tokens.map((_, i) => this.word([k, i])),
        ),
      );
    this.sides = [side(".is-left", "Words that attend", 0), side("", "Words attended to", 1)];
    fill(this.element, this.sides[0], this.drawing, this.sides[1]);
    this.trace(this.pinned);
  }

  /** @param {Word} word */
  word(word) {
    const token = this.tokens[word[1]],
      point = () => this.trace([word]);
    const press = (/** @type {MouseEvent} */ { ctrlKey, metaKey }) => {
      const before = ctrlKey || metaKey || `${this.pinned}` === `${word}` ? this.pinned : [];
      this.pinned = /** @type {Word[]} */ (toggled(before, word).slice(-2));
      this.trace(this.pinned);
    };
    const item = button([el("bdi", { title: token }, token), el("span.b-line-weight")], press, {
      class: "b-line-word",
      "aria-label": word[0] ? `${token}, attended to` : `${token}, attends`,
      onpointerenter: point,
      onfocus: point,
      onpointerleave: () => this.trace(this.pinned),
    });
    item.style.height = `${this.height}px`;
    return item;
  }

  /** Draw the lines of these words, or of all, and the mean weights of the words at their other ends. @param {Word[]} words */
  trace(words) {
    const n = this.tokens.length,
      across = this.drawing.clientWidth || ACROSS,
      shown = words.filter(([, index]) => index < n);
    const line = (/** @type {number} */ head, /** @type {number} */ weight, /** @type {number} */ at) => {
      const ends = [Math.floor(at / n), at % n],
        isShown = shown.length ? shown.some(([side, index]) => ends[side] === index) : weight >= LINES_FROM;
      if (!isShown || weight < LEAST) return null;
      const [start, end] = ends.map((index) => (index + 0.5) * this.height);
      return svg("path", {
        d: `M0 ${start}C${across / 2} ${start} ${across / 2} ${end} ${across} ${end}`,
        fill: "none",
        stroke: colourOf(head),
        "stroke-width": (0.6 + 6 * weight).toFixed(2),
        "stroke-opacity": Math.min(0.9, 0.22 + 0.75 * Math.sqrt(weight)).toFixed(2),
      });
    };
    fill(
      this.drawing,
      [...this.heads].map(([head, matrix]) => Array.from(matrix, (weight, at) => line(head, weight, at))),
    );
    const all = [...this.heads.values()],
      mean = (/** @type {number} */ at) => all.reduce((sum, matrix) => sum + matrix[at], 0) / all.length;
    this.sides.forEach((list, side) =>
      list.querySelectorAll("button").forEach((item, other) => {
        const means = shown.flatMap(([own, i]) => (own === side ? [] : [mean(own ? other * n + i : i * n + other)])),
          most = Math.max(0, ...means),
          texts = means.map((each) => (each >= LEAST_MEAN ? each.toFixed(2) : "–"));
        item.children[1].textContent = most >= LEAST_MEAN ? texts.join(" · ") : "";
        item.style.setProperty("--share", most >= LEAST_MEAN ? Math.sqrt(most).toFixed(2) : "0");
        item.ariaPressed = `${has(this.pinned, [side, other])}`;
      }),
    );
  }
}
