// A table of numbers as colours, with words beside its rows and columns: attention, sentence pairs, similarities.

import { colours, legend, onTheme, WEIGHTS } from "../colours.js";
import { el, svg } from "./elements.js";

/**
 * @typedef {object} Heat What a map draws.
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {ArrayLike<number | null>} values row by row; null where there is no number
 * @property {string} measure what the values are
 * @property {(value: number) => number} [level] of a value, -1 to 1; the value itself if not given
 * @property {number} [least] smaller values have no cell
 * @property {number[]} [ticks] values of the legend
 * @property {number} room pixels across
 * @property {number} [largest] side of a cell in pixels, at most
 * @property {number} [letters] letters of a word, at most
 * @property {string} label name of the picture for a screen reader
 * @property {string} hint readout before a cell is chosen
 * @property {(i: number, j: number) => (Node | string)[]} describe readout of a cell
 * @property {[row: number, column: number] | null} [border] row and column after a dashed line
 * @property {(i: number, j: number) => boolean} [outlined]
 * @property {(i: number, j: number) => boolean} [crossed]
 * @property {(i: number, j: number) => void} [press] what a click or Enter does
 */

const GAP = 4,
  SMALLEST = 10;
const LARGEST_LETTERS = 13;
const BETWEEN = 1.2; // pixels between the words of two rows; a browser rounds their heights up by as much as one
const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
/** @param {number} value */
const itself = (value) => value;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** @param {string} word @param {number} most */
function shortened(word, most) {
  const letters = [...word];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : word;
}

/** Measures of the page's font at a size of 1: it may be any that a machine has. */
function font() {
  const { fontFamily } = getComputedStyle(/** @type {Element} */ (document.querySelector(".gradio-container")));
  pen.font = `100px ${fontFamily}`;
  const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = pen.measureText("");
  return {
    height: (ascent + descent) / 100,
    below: (ascent - descent) / 200, // from the middle of a line to where letters stand
    /** @param {string[]} words @param {number} most */
    widest: (words, most) => Math.max(...words.map((word) => pen.measureText(shortened(word, most)).width)) / 100,
  };
}

/**
 * A word at (x, y), which is its middle or one end; a word that is written from right to left keeps that order.
 * @param {string} word @param {number} most @param {number} x @param {number} y @param {number} size
 * @param {"left" | "middle" | "right"} end @param {boolean} [turned] by a quarter to the left
 */
function label(word, most, x, y, size, end, turned) {
  const leftward = RIGHT_TO_LEFT.test(word);
  const text = svg("text", {
    x,
    y,
    "font-size": size,
    direction: leftward ? "rtl" : "ltr",
    "text-anchor": end === "middle" ? "middle" : (end === "right") === leftward ? "start" : "end",
    class: "b-map-word",
    translate: "no",
    ...(turned ? { transform: `rotate(-90 ${x} ${y})` } : {}),
  });
  text.textContent = shortened(word, most);
  text.append(svg("title", {}, word));
  return text;
}

/**
 * The cells as a picture; one without a number gets a grey stroke.
 * @param {Heat} heat @param {number} side
 */
function cells({ rows, columns, values, level = itself, least = -1 }, side) {
  const colour = colours();
  const canvas = el("canvas", { width: columns.length * side, height: rows.length * side });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")),
    gap = side > 5 ? 1 : 0;
  pen.strokeStyle = "rgb(124, 133, 148)";
  for (let index = 0; index < values.length; index += 1) {
    const x = (index % columns.length) * side,
      y = Math.floor(index / columns.length) * side,
      value = values[index];
    if (value === null) {
      pen.beginPath();
      pen.moveTo(x + 0.7 * side, y + 0.3 * side);
      pen.lineTo(x + 0.3 * side, y + 0.7 * side);
      pen.stroke();
    } else if (value >= least) {
      pen.fillStyle = colour(level(value));
      pen.fillRect(x, y, side - gap, side - gap);
    }
  }
  return canvas.toDataURL();
}

/**
 * A map: its element stays while the content changes, so that the keyboard focus stays too. `readout` describes the
 * cell under the pointer, or the one that the arrow keys reach.
 * @param {HTMLElement} readout
 */
export function heatMap(readout) {
  const element = el("div", { class: "b-map", tabindex: "0", role: "application" });
  const mark = svg("rect", { class: "b-map-mark" });
  const row = svg("rect", { class: "b-map-line" }),
    column = svg("rect", { class: "b-map-line" });
  /** @type {Heat} */
  let heat;
  /** @type {SVGElement} */
  let picture;
  /** @type {[number, number] | null} */
  let chosen = null;
  let side = 0,
    left = 0,
    top = 0;

  /** @param {number} i @param {number} j */
  const isInside = (i, j) => i >= 0 && j >= 0 && i < heat.rows.length && j < heat.columns.length;

  /** @param {number} i @param {number} j */
  function choose(i, j) {
    chosen = [i, j];
    const x = `${left + j * side}`,
      y = `${top + i * side}`;
    for (const part of [mark, row, column]) part.setAttribute("visibility", "visible");
    for (const part of [mark, column]) part.setAttribute("x", x);
    for (const part of [mark, row]) part.setAttribute("y", y);
    readout.removeAttribute("data-no-picture");
    readout.replaceChildren(...heat.describe(i, j));
  }

  /** @param {MouseEvent} event */
  function cellUnder(event) {
    const box = picture.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top - top) / side), Math.floor((event.clientX - box.left - left) / side)];
  }

  element.addEventListener("pointermove", (event) => {
    const [i, j] = cellUnder(event);
    if (isInside(i, j)) choose(i, j);
  });
  element.addEventListener("click", (event) => {
    const [i, j] = cellUnder(event);
    if (!isInside(i, j)) return;
    choose(i, j);
    heat.press?.(i, j);
  });
  element.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    if (heat.press && chosen && (event.key === "Enter" || event.key === " ")) heat.press(...chosen);
    else if (!step) return;
    else {
      const [i, j] = chosen ? [chosen[0] + step[0], chosen[1] + step[1]] : [0, 0];
      if (isInside(i, j)) choose(i, j);
    }
    event.preventDefault();
  });

  onTheme(element, () => {
    if (heat) draw(heat);
  });

  /** @param {Heat} next */
  function draw(next) {
    const same =
      heat && heat.label === next.label && `${heat.rows}` === `${next.rows}` && `${heat.columns}` === `${next.columns}`;
    heat = next;
    if (!same) chosen = null;
    const { rows, columns, room, largest = 32, letters = 14 } = heat;
    const { height, below, widest } = font(),
      across = widest(rows, letters),
      downward = widest(columns, letters);
    const free = room - 12 - GAP,
      ratio = across / height;
    // The largest cells beside words that are as high as a row, or, in high rows, of the largest letters.
    side = Math.max(
      (free + ratio * BETWEEN) / (columns.length + ratio),
      (free - across * LARGEST_LETTERS) / columns.length,
    );
    side = Math.max(SMALLEST, Math.min(largest, side));
    const size = Math.min(LARGEST_LETTERS, (side - BETWEEN) / height),
      turned = downward * size > side - GAP;
    left = 12 + across * size;
    top = 12 + (turned ? downward * size : size);
    const W = columns.length * side,
      H = rows.length * side,
      toLine = below * size;
    /** @type {[SVGElement, Record<string, number>][]} */
    const frames = [
      [mark, { width: side, height: side }],
      [row, { x: left, width: W, height: side }],
      [column, { y: top, width: side, height: H }],
    ];
    for (const [part, extent] of frames) {
      for (const [name, value] of Object.entries({ ...extent, visibility: "hidden" }))
        part.setAttribute(name, `${value}`);
    }
    picture = svg(
      "svg",
      { width: left + W + GAP, height: top + H + GAP, viewBox: `0 0 ${left + W + GAP} ${top + H + GAP}` },
      svg("image", {
        x: left,
        y: top,
        width: W,
        height: H,
        href: cells(heat, Math.round(side * 2)),
        preserveAspectRatio: "none",
      }),
      ...rows.map((word, i) => label(word, letters, left - 5, top + (i + 0.5) * side + toLine, size, "right")),
      ...columns.map((word, j) =>
        turned
          ? label(word, letters, left + (j + 0.5) * side + toLine, top - 5, size, "left", true)
          : label(word, letters, left + (j + 0.5) * side, top - 6, size, "middle"),
      ),
    );
    if (heat.border) {
      const [i, j] = heat.border;
      picture.append(
        svg("path", { d: `M${left} ${top + i * side}h${W}M${left + j * side} ${top}v${H}`, class: "b-map-border" }),
      );
    }
    rows.forEach((_, i) =>
      columns.forEach((__, j) => {
        const x = left + j * side,
          y = top + i * side,
          third = side / 3;
        if (heat.outlined?.(i, j))
          picture.append(
            svg("rect", { x: x + 1, y: y + 1, width: side - 2.5, height: side - 2.5, class: "b-map-true" }),
          );
        if (heat.crossed?.(i, j)) {
          picture.append(
            svg("path", {
              d: `M${x + third} ${y + third}l${third} ${third}m0 ${-third}l${-third} ${third}`,
              class: "b-map-wrong",
            }),
          );
        }
      }),
    );
    picture.append(row, column, mark);
    element.replaceChildren(picture, legend(heat.measure, heat.ticks ?? WEIGHTS, heat.level ?? itself));
    element.setAttribute("aria-label", heat.label);
    element.classList.toggle("is-pressable", Boolean(heat.press));
    readout.toggleAttribute("data-no-picture", !chosen);
    if (chosen) choose(...chosen);
    else readout.textContent = heat.hint;
  }

  return { element, draw };
}
