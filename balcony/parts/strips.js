// Vectors as strips of colour, one below the other: a cell for each number. The arrow keys and the pointer choose a cell
// of all strips at once, which a line below them describes.

import { colours, legend, level } from "../colours.js";
import { el, fill } from "./elements.js";
import { number } from "./numbers.js";

/** @typedef {[name: string, values: ArrayLike<number>]} Strip */
/**
 * @typedef {object} Strips
 * @property {string} label of the picture for a screen reader
 * @property {Strip[]} strips of the same length
 * @property {(index: number) => import("./elements.js").Child} describe readout of a cell
 * @property {((index: number) => void) | null} open by a click or Enter on a cell
 */

const SMALLEST = 7,
  LARGEST = 24,
  HEIGHT = 16,
  SCALE = 2,
  WIDTH = 320; // before the picture is on the page

/** @param {ArrayLike<number>} values */
const extent = (values) => [Math.min(...Array.from(values)), Math.max(...Array.from(values))];

/** @param {Strips} shown */
export function strips(shown) {
  const picture = new Picture(shown);
  return el("div", picture.element, picture.readout);
}

class Picture {
  element = el("div.b-strips", { tabindex: 0, role: "application", "data-painted": "" });
  readout = el("p.b-readout", { "aria-live": "polite" });
  /** The mark and the value of each strip. @type {[mark: HTMLElement, value: HTMLElement][]} */
  marks = [];
  chosen = 0;
  columns = 1;
  cell = 1;
  width = 0;

  /** @param {Strips} shown */
  constructor(shown) {
    this.shown = shown;
    const { label, strips } = shown,
      [least, most] = extent(strips[strips.length - 1][1]),
      names = strips.map(([name]) => name).join("\n");
    this.length = strips[0][1].length;
    this.largest = Math.max(...strips.map(([, values]) => Math.max(...extent(values).map(Math.abs)))) || 1;
    this.element.ariaLabel = `${label}\n${names}\n${this.length} numbers each; the last from ${number(least)} to ${number(most)}; the arrow keys go from cell to cell`;
    this.element.addEventListener("keydown", (event) => this.type(event));
    this.element.addEventListener("repaint", () => this.paint());
    new ResizeObserver(() => {
      if (this.element.clientWidth && this.element.clientWidth !== this.width) this.paint();
    }).observe(this.element);
    this.paint();
  }

  paint() {
    this.width = this.element.clientWidth || WIDTH;
    this.cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(this.width / this.length)));
    this.columns = Math.min(this.length, Math.floor(this.width / this.cell));
    this.marks = this.shown.strips.map(() => [el("span.b-strip-mark"), el("span.b-number")]);
    const strips = this.shown.strips.map(([name, values], i) => {
      const [mark, value] = this.marks[i],
        head = el("span.b-strip-name", el("bdi", { translate: "yes" }, name), value);
      return el("div.b-strip", { "aria-hidden": "true" }, head, el("div", this.canvas(values), mark));
    });
    const most = Number(this.largest.toPrecision(2));
    fill(
      this.element,
      strips,
      legend("Value", [-most, 0, most], (value) => level(value / this.largest)),
    );
    this.choose(this.chosen);
  }

  /** @param {ArrayLike<number>} values */
  canvas(values) {
    const { columns, cell, length, largest } = this,
      lines = Math.ceil(length / columns),
      colour = colours(),
      canvas = el("canvas", { width: columns * cell * SCALE, height: lines * HEIGHT * SCALE });
    canvas.style.cssText = `width: ${columns * cell}px; height: ${lines * HEIGHT}px`;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    for (let index = 0; index < length; index += 1) {
      const x = (index % columns) * cell,
        y = Math.floor(index / columns) * HEIGHT;
      pen.fillStyle = colour(level(values[index] / largest));
      pen.fillRect(x * SCALE, y * SCALE, cell * SCALE - 1, HEIGHT * SCALE - 2);
    }
    const point = (/** @type {MouseEvent} */ { clientX, clientY }) => {
      const box = canvas.getBoundingClientRect(),
        column = Math.floor((clientX - box.left) / cell),
        index = Math.floor((clientY - box.top) / HEIGHT) * columns + column;
      if (column >= 0 && column < columns && index < length) this.choose(index);
    };
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("click", (event) => {
      point(event);
      this.shown.open?.(this.chosen);
    });
    return canvas;
  }

  /** @param {number} index */
  choose(index) {
    const { columns, cell, shown } = this,
      chosen = (this.chosen = Math.max(0, Math.min(this.length - 1, index))),
      [x, y] = [(chosen % columns) * cell, Math.floor(chosen / columns) * HEIGHT];
    this.marks.forEach(([mark, value], i) => {
      mark.style.cssText = `left: ${x}px; top: ${y}px; width: ${cell}px; height: ${HEIGHT}px`;
      value.textContent = `[${chosen}] ${number(shown.strips[i][1][chosen])}`;
    });
    fill(this.readout, shown.describe(chosen));
  }

  /** @param {KeyboardEvent} event */
  type(event) {
    if (event.key === "Enter") this.shown.open?.(this.chosen);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    this.choose(this.chosen + step);
  }
}
