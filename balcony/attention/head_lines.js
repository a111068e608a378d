// The heads of a layer as lines between its words: those that attend on the left, those attended to on the right.

import { button, el, fill, roam, svg } from "../parts/elements.js";
import { has, toggled } from "../parts/numbers.js";

/** @typedef {[side: 0 | 1, index: number]} Word on the left, which attends, or on the right, which is attended to */

const LINES_FROM = 0.02,
  LEAST = 0.002, // the same with the lines of one word
  LEAST_SUM = 0.0005; // of a word's weights that is written beside it
const ACROSS = 240; // pixels between the words, before the drawing is on the page
const MANY = 40; // words, which stand closer

export const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;

export const headLines = () => new HeadLines();

class HeadLines {
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
    this.sides = [this.words(0), this.words(1)];
    fill(this.element, this.sides[0], this.drawing, this.sides[1]);
    this.trace(this.pinned);
  }

  words(side) {
    const name = side ? "Words attended to" : "Words that attend";
    return roam(
      el(
        side ? "div.b-line-side" : "div.b-line-side.is-left",
        { role: "group", "aria-label": name },
        this.tokens.map((token, index) => this.word(side, index, token)),
      ),
    );
  }

  word(side, index, token) {
    const point = () => this.trace([[side, index]]);
    const press = (/** @type {MouseEvent} */ { ctrlKey, metaKey }) => {
      const word = [side, index],
        before = ctrlKey || metaKey || `${this.pinned}` === `${word}` ? this.pinned : [];
      this.pinned = /** @type {Word[]} */ (toggled(before, word).slice(-2));
      this.trace(this.pinned);
    };
    const item = button([el("bdi", { title: token }, token), el("span.b-line-weight")], press, {
      class: "b-line-word",
      "aria-label": side ? `${token}, attended to` : `${token}, attends`,
      onpointerenter: point,
      onfocus: point,
      onpointerleave: () => this.trace(this.pinned),
    });
    item.style.height = `${this.height}px`;
    return item;
  }

  /** Draw the lines of these words, or of all. @param {Word[]} words */
  trace(words) {
    const shown = words.filter(([, index]) => index < this.tokens.length),
      sums = shown.map((word) => this.sums(word));
    const paths = [...this.heads].map(([head, matrix]) =>
      (shown.length ? shown : [null]).map((word) => this.paths(head, matrix, word)),
    );
    fill(this.drawing, paths);
    this.sides.forEach((list, side) =>
      list.querySelectorAll("button").forEach((item, index) => {
        const own = sums.filter((_, k) => shown[k][0] !== side).map((each) => each[index]),
          most = Math.max(0, ...own),
          isShown = most >= LEAST_SUM;
        const texts = own.map((sum) => (sum >= LEAST_SUM ? sum.toFixed(2) : "–"));
        item.children[1].textContent = isShown ? texts.join(" · ") : "";
        item.style.setProperty("--share", isShown ? Math.sqrt(most).toFixed(2) : "0");
        item.ariaPressed = `${has(this.pinned, [side, index])}`;
      }),
    );
  }

  /** A head's lines. @param {number} head @param {Float32Array} matrix @param {Word | null} word the only one with lines */
  paths(head, matrix, word) {
    const n = this.tokens.length,
      across = this.drawing.clientWidth || ACROSS;
    return Array.from(matrix, (weight, at) => {
      const [i, j] = [Math.floor(at / n), at % n];
      if (weight < (word ? LEAST : LINES_FROM) || (word && word[1] !== (word[0] ? j : i))) return null;
      const [start, end] = [i, j].map((index) => (index + 0.5) * this.height);
      return svg("path", {
        d: `M0 ${start}C${across / 2} ${start} ${across / 2} ${end} ${across} ${end}`,
        fill: "none",
        stroke: colourOf(head),
        "stroke-width": (0.6 + 6 * weight).toFixed(2),
        "stroke-opacity": Math.min(0.9, 0.22 + 0.75 * Math.sqrt(weight)).toFixed(2),
      });
    });
  }

  /** The mean weights of the words at the other ends of a word's lines. @param {Word} word */
  sums(word) {
    const n = this.tokens.length;
    return this.tokens.map((_, other) => {
      const [i, j] = word[0] ? [other, word[1]] : [word[1], other];
      return [...this.heads.values()].reduce((sum, matrix) => sum + matrix[i * n + j], 0) / this.heads.size;
    });
  }
}
