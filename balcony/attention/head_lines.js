// The heads of a layer as lines between its words: those that attend on the left, those attended to on the right.

import { button, el, fill, roam, svg } from "../parts/elements.js";
import { has, toggled } from "../parts/numbers.js";
import { drawn } from "./heads.js";

/** @typedef {[side: 0 | 1, index: number]} Word on the left, which attends, or on the right, which is attended to */

const BUCKETS = 8; // widths of lines: a few paths instead of thousands
const LINES_FROM = 0.02,
  LEAST = 0.002, // the same with the lines of one word
  LEAST_SUM = 0.0005; // of a word's weights that is written beside it
const ACROSS = 240; // pixels between the words, before the drawing is on the page
const MANY = 40; // words, which stand closer

/** @param {number} head */
export const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;

export const headLines = () => new HeadLines();

class HeadLines {
  element = el("div.b-lines");
  drawing = svg("svg");
  /** @type {HTMLElement[]} */
  sides = [];
  /** @type {string[]} */
  tokens = [];
  /** @type {number[]} */
  segments = [];
  /** Weights by head, word by word. @type {Map<number, Float32Array>} */
  heads = new Map();
  height = 0;
  /** The words that were pressed, two with Ctrl. @type {Word[]} */
  pinned = [];

  /** @param {string[]} tokens @param {number[]} segments @param {Map<number, Float32Array>} heads */
  draw(tokens, segments, heads) {
    Object.assign(this, { tokens, segments, heads, height: tokens.length > MANY ? 18 : 24 });
    this.drawing = svg("svg", { height: tokens.length * this.height, width: "100%", "aria-hidden": "true" });
    this.sides = [this.words(0), this.words(1)];
    fill(this.element, this.sides[0], this.drawing, this.sides[1]);
    this.trace(this.pinned);
  }

  /** @param {0 | 1} side */
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

  /** @param {0 | 1} side @param {number} index @param {string} token */
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

  /** Whether the chosen filter lets a line pass. @param {number} i @param {number} j */
  passes(i, j) {
    const [from, to] = [i, j].map((at) => "AB"[this.segments[at]]);
    return ["all words", `${from} → ${to}`].includes(drawn().filter);
  }

  /** Draw the lines of these words, or of all. @param {Word[]} words */
  trace(words) {
    const shown = words.filter(([, index]) => index < this.tokens.length),
      least = Math.max(drawn().threshold, LEAST_SUM),
      sums = shown.map((word) => this.sums(word));
    const paths = [...this.heads].map(([head, matrix]) =>
      (shown.length ? shown : [null]).map((word) => this.paths(head, matrix, word)),
    );
    fill(this.drawing, paths);
    this.sides.forEach((list, side) =>
      list.querySelectorAll("button").forEach((item, index) => {
        const own = sums.filter((_, k) => shown[k][0] !== side).map((each) => each[index]),
          most = Math.max(0, ...own),
          isShown = most >= least;
        const texts = own.map((sum) => (sum >= least ? sum.toFixed(2) : "–"));
        item.children[1].textContent = isShown ? texts.join(" · ") : "";
        item.style.setProperty("--share", isShown ? Math.sqrt(most).toFixed(2) : "0");
        item.ariaPressed = `${has(this.pinned, [side, index])}`;
      }),
    );
  }

  /** A head's lines, a path for each width. @param {number} head @param {Float32Array} matrix @param {Word | null} word the only one with lines */
  paths(head, matrix, word) {
    return this.curves(matrix, word).map((parts, bucket) => {
      const middle = (bucket + 0.5) / BUCKETS;
      const look = {
        fill: "none",
        stroke: colourOf(head),
        "stroke-width": (0.6 + 6 * middle).toFixed(2),
        "stroke-opacity": Math.min(0.9, 0.22 + 0.75 * Math.sqrt(middle)).toFixed(2),
      };
      return parts.length > 0 && svg("path", { d: parts.join(""), ...look });
    });
  }

  /** The curves of a head, by their width. @param {Float32Array} matrix @param {Word | null} word */
  curves(matrix, word) {
    const n = this.tokens.length,
      across = this.drawing.clientWidth || ACROSS,
      from = word ? Math.max(LEAST, drawn().threshold) : Math.max(LINES_FROM, drawn().threshold);
    /** @type {string[][]} */
    const curves = Array.from({ length: BUCKETS }, () => []);
    matrix.forEach((weight, at) => {
      const i = Math.floor(at / n),
        j = at % n;
      if (weight < from || (word && word[1] !== (word[0] ? j : i)) || !this.passes(i, j)) return;
      const [start, end] = [i, j].map((index) => (index + 0.5) * this.height);
      curves[Math.min(BUCKETS - 1, Math.floor(weight * BUCKETS))].push(
        `M0 ${start}C${across / 2} ${start} ${across / 2} ${end} ${across} ${end}`,
      );
    });
    return curves;
  }

  /** The mean weights of the words at the other ends of a word's lines. @param {Word} word */
  sums(word) {
    const n = this.tokens.length;
    return this.tokens.map((_, other) => {
      const [i, j] = word[0] ? [other, word[1]] : [word[1], other];
      if (!this.passes(i, j)) return 0;
      return [...this.heads.values()].reduce((sum, matrix) => sum + matrix[i * n + j], 0) / this.heads.size;
    });
  }
}
