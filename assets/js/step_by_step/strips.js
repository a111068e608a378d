// Vectors as strips of colour, one below the other: a cell for each number. The arrow keys and the pointer choose a cell
// of all strips at once.

import { colours, level, onTheme } from "../colours.js";
import { el } from "../parts/elements.js";
import { number } from "../parts/numbers.js";

/** @typedef {[name: string, values: ArrayLike<number>]} Strip */
/**
 * @typedef {object} Strips All strips have the same length.
 * @property {string} label of the picture for a screen reader
 * @property {Strip[]} strips
 * @property {(index: number) => string} describe readout of a cell
 */

const SMALLEST = 7,
  LARGEST = 24,
  HEIGHT = 16,
  SCALE = 2;

/** @param {ArrayLike<number>} values */
const extent = (values) =>
  Array.from(values).reduce(
    ([least, most], value) => [Math.min(least, value), Math.max(most, value)],
    [Infinity, -Infinity],
  );

/** @param {HTMLElement} readout @param {(index: number) => void} [open] by a click or Enter on a cell */
export function strips(readout, open) {
  const element = el("div", { class: "b-strips", tabindex: "0", role: "application" });
  /** @type {Strips} */
  let shown;
  /** @type {{canvas: HTMLCanvasElement, mark: HTMLElement, value: HTMLElement}[]} */
  let drawn = [];
  let chosen = 0,
    columns = 1,
    cell = 1,
    width = 0;

  const length = () => shown.strips[0][1].length;

  /** @param {number} index */
  function choose(index) {
    chosen = Math.max(0, Math.min(length() - 1, index));
    drawn.forEach(({ mark, value }, i) => {
      mark.style.cssText = `left: ${(chosen % columns) * cell}px; top: ${Math.floor(chosen / columns) * HEIGHT}px; width: ${cell}px; height: ${HEIGHT}px`;
      value.textContent = `[${chosen}] ${number(shown.strips[i][1][chosen])}`;
    });
    readout.textContent = shown.describe(chosen);
  }

  element.addEventListener("keydown", (event) => {
    if (event.key === "Enter") open?.(chosen);
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(chosen + step);
  });
  new ResizeObserver(() => {
    if (shown && element.clientWidth && element.clientWidth !== width) paint();
  }).observe(element);
  onTheme(element, paint);

  function paint() {
    width = element.clientWidth || 320;
    const n = length(),
      colour = colours();
    cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor(width / n)));
    columns = Math.min(n, Math.floor(width / cell));
    const lines = Math.ceil(n / columns),
      largest = Math.max(...shown.strips.map(([, values]) => Math.max(...extent(values).map(Math.abs)))) || 1;
    drawn = shown.strips.map(([, values]) => {
      const canvas = el("canvas", { width: columns * cell * SCALE, height: lines * HEIGHT * SCALE });
      canvas.style.cssText = `width: ${columns * cell}px; height: ${lines * HEIGHT}px`;
      const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
      for (let index = 0; index < n; index += 1) {
        pen.fillStyle = colour(level(values[index] / largest));
        pen.fillRect(
          (index % columns) * cell * SCALE,
          Math.floor(index / columns) * HEIGHT * SCALE,
          cell * SCALE - 1,
          HEIGHT * SCALE - 2,
        );
      }
      const at = (/** @type {MouseEvent} */ { clientX, clientY }) => {
        const box = canvas.getBoundingClientRect();
        const column = Math.floor((clientX - box.left) / cell),
          index = Math.floor((clientY - box.top) / HEIGHT) * columns + column;
        if (column >= 0 && column < columns && index < n) choose(index);
      };
      canvas.addEventListener("pointermove", at);
      canvas.addEventListener("click", (event) => {
        at(event);
        open?.(chosen);
      });
      return { canvas, mark: el("span", { class: "b-strip-mark" }), value: el("span", { class: "b-number" }) };
    });
    element.replaceChildren(
      ...drawn.map(({ canvas, mark, value }, i) =>
        el(
          "div",
          { class: "b-strip", "aria-hidden": "true" },
          el("span", { class: "b-strip-name" }, el("bdi", {}, shown.strips[i][0]), value),
          el("div", {}, canvas, mark),
        ),
      ),
    );
    choose(chosen);
  }

  return {
    element,
    /** @param {Strips} next */
    draw(next) {
      shown = next;
      const [least, most] = extent(next.strips[next.strips.length - 1][1]);
      element.setAttribute(
        "aria-label",
        `${next.label}: ${next.strips.map(([name]) => name).join(", ")}, ${length()} numbers each; the last from ${number(least)} to ${number(most)}; the arrow keys go from cell to cell`,
      );
      paint();
    },
  };
}
