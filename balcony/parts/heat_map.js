// A table of numbers as colours, with words beside its rows and columns: attention, sentence pairs, similarities.

import { colours, legend, WEIGHTS } from "../colours.js";
import { direction, el, fill, putBelow, sized, svg } from "./elements.js";
import { toggled } from "./numbers.js";

/**
 * @typedef {object} Heat What a map draws.
 * @property {string[]} rows
 * @property {string[]} columns
 * @property {ArrayLike<number | null>} values row by row; null where there is no number
 * @property {string} measure what the values are
 * @property {boolean} [hasNames] whether the rows are names of the page, which are translated, and no person's words
 * @property {(value: number) => number} [level] of a value, -1 to 1; the value itself if not given
 * @property {number[]} [ticks] values of the legend
 * @property {number} [largest] side of a cell in pixels, at most
 * @property {number} [letters] letters of a word, at most; fewer where there is little room
 * @property {string} label name of the picture for a screen reader
 * @property {string} [axes] what rows and columns are: above the map, in a picture too
 * @property {string} hint after that what can be done here, until a cell is pressed
 * @property {(i: number, j: number) => import("./elements.js").Child} describe what a cell says
 * @property {(i: number, j: number) => import("./elements.js").Child} [line] what a row (j is -1) or a column (i is -1) says; without it their words cannot be chosen
 * @property {number} [border] row and column after a dashed line
 * @property {(i: number, j: number) => boolean} [outlined]
 * @property {(i: number, j: number) => boolean} [crossed]
 * @property {(i: number, j: number) => void} [press] what a click or Enter does
 * @property {[number, number] | null} [here] the cell of what the page shows, which is marked while none is chosen
 */
/** @typedef {ReturnType<typeof placed>} Place where the cells are */

const GAP = 4,
  AROUND = 12,
  SMALLEST = 10,
  LARGEST = 32,
  LARGEST_LETTERS = 13,
  LETTERS = 14,
  LETTER = 18, // pixels of the room for each letter of a word, at least
  ROOM = 500, // of a map that is not on the page
  UNDER = 48; // pixels of the legend below a map, and between it and the end of the window
const BETWEEN = 1.2; // pixels between the words of two rows; a browser rounds their heights up by as much as one
const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
/** @param {number} value */
const itself = (value) => value;
/** Whether it is the word of a row or a column. @param {number} i @param {number} j */
const isLine = (i, j) => i < 0 || j < 0;
/** @type {Record<string, [number, number]>} */
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** A dark frame in a light one, or the reverse, so that it is seen on each colour. @param {string} name @param {object} place */
const framed = (name, place) =>
  svg("g", svg("rect", { ...place, class: "b-map-halo" }), svg("rect", { ...place, class: name }));

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
    /** @param {string[]} words @param {number} most */
    widest: (words, most) => Math.max(...words.map((word) => pen.measureText(shortened(word, most)).width)) / 100,
  };
}

/** The pixels of the window that a map can have from top to bottom: the bar at the top stays. */
const windowHeight = () => innerHeight - (document.getElementById("header")?.offsetHeight ?? 0) - UNDER;

/**
 * Where the cells are, in pixels: the largest ones beside words that are as high as a row, or, in high rows, of the largest
 * letters; in a low window smaller ones.
 * @param {Heat} heat @param {number} room
 */
function placed({ rows, columns, largest = LARGEST, letters: most = LETTERS }, room) {
  const { height, widest } = font(),
    letters = Math.min(most, Math.floor(room / LETTER)),
    across = widest(rows, letters),
    downward = widest(columns, letters),
    free = room - AROUND - GAP,
    high = sized(LARGEST_LETTERS),
    ratio = across / height;
  const fitting = Math.max(
    (free + ratio * BETWEEN) / (columns.length + ratio),
    (free - across * high) / columns.length,
  );
  const of = (/** @type {number} */ side) => {
    const size = Math.min(high, (side - BETWEEN) / height), // of the letters
      isTurned = downward * size > side - GAP, // the words of the columns go upwards
      top = AROUND + (isTurned ? downward * size : size);
    return { side, size, isTurned, top, height: rows.length * side };
  };
  const wide = of(Math.max(SMALLEST, Math.min(sized(largest), fitting))),
    roomBelow = windowHeight() - Math.max(wide.top, of(SMALLEST).top), // the words above smaller cells may turn
    place = of(Math.max(SMALLEST, Math.min(wide.side, roomBelow / rows.length)));
  return {
    ...place,
    letters, // of a word, at most
    isLong: place.height > roomBelow + 1, // the map is higher than the window
    left: AROUND + across * place.size,
    width: columns.length * place.side,
  };
}

/**
 * A word at (x, y), which is its middle or one end; a word that is written from right to left keeps that order.
 * @param {string} word @param {Place} place @param {number} x @param {number} y
 * @param {"left" | "middle" | "right"} end @param {boolean} [turned] by a quarter to the left
 * @param {boolean} [isName] of the page
 */
function label(word, { letters, size }, x, y, end, turned, isName) {
  const dir = direction([word]);
  return svg(
    "text",
    {
      x,
      y,
      "font-size": size,
      direction: dir,
      "dominant-baseline": "central",
      "text-anchor": end === "middle" ? "middle" : (end === "right") === (dir === "rtl") ? "start" : "end",
      class: "b-map-word",
      translate: isName ? null : "no",
      transform: turned ? `rotate(-90 ${x} ${y})` : null,
    },
    document.createTextNode(shortened(word, letters)),
    svg("title", document.createTextNode(word)),
  );
}

/** The words beside the rows and above the columns. @param {Heat} heat @param {Place} place */
function labels({ rows, columns, hasNames }, place) {
  const { side, left, top, isTurned } = place;
  return [
    rows.map((word, i) => label(word, place, left - 5, top + (i + 0.5) * side, "right", false, hasNames)),
    columns.map((word, j) => {
      const x = left + (j + 0.5) * side;
      return isTurned
        ? label(word, place, x, top - 5, "left", true)
        : label(word, place, x, top - 4 - place.size / 2, "middle");
    }),
  ];
}

/** The cells as a picture; one without a number gets a grey stroke. @param {Heat} heat @param {number} side */
function cells({ rows, columns, values, level = itself }, side) {
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
    } else {
      pen.fillStyle = colour(level(value));
      pen.fillRect(x, y, side - gap, side - gap);
    }
  }
  return canvas.toDataURL();
}

/** The dashed border, and the marks of single cells. @param {Heat} heat @param {Place} place */
function marks({ rows, columns, border, outlined, crossed }, { side, left, top, width, height }) {
  const third = side / 3;
  const line = border && `M${left} ${top + border * side}h${width}M${left + border * side} ${top}v${height}`;
  const ofCell = (/** @type {number} */ i, /** @type {number} */ j) => {
    const x = left + j * side,
      y = top + i * side,
      inner = { x: x + 1, y: y + 1, width: side - 2.5, height: side - 2.5 },
      cross = `M${x + third} ${y + third}l${third} ${third}m0 ${-third}l${-third} ${third}`;
    return [
      outlined?.(i, j) && ["b-map-halo", "b-map-true"].map((name) => svg("rect", { ...inner, class: name })),
      crossed?.(i, j) && ["b-map-halo", "b-map-wrong"].map((name) => svg("path", { d: cross, class: name })),
    ];
  };
  return [
    line && svg("path", { d: line, class: "b-map-border" }),
    (outlined || crossed) && rows.map((_, i) => columns.map((__, j) => ofCell(i, j))),
  ];
}

class HeatMap {
  map = el("div.b-map", { tabindex: 0, role: "application", "data-painted": "" });
  hint = el("span");
  guide = el("p.b-empty.b-map-hint");
  readout = el("p.b-tip.b-readout", { "aria-live": "polite", "data-no-picture": "" });
  element = el("div.b-map-frame", this.guide, this.map, this.readout);
  mark = svg("g"); // the frame of a cell
  frames = svg("g"); // this and those of lines
  picture = svg("svg");
  room = 0;
  /** @type {Heat | undefined} */
  heat;
  /** @type {Place | undefined} */
  place;
  /** The cell under the pointer, or which the arrow keys have reached; -1 is the word of a line. @type {[number, number] | null} */
  chosen = null;
  /** The cell or the lines that were pressed, which stay marked; two lines with Ctrl. @type {[number, number][]} */
  pressed = [];

  constructor() {
    const { map } = this;
    map.addEventListener("pointermove", (event) => this.point(event));
    map.addEventListener("click", (event) => {
      if (this.point(event)) this.press(event);
    });
    map.addEventListener("keydown", (event) => this.type(event));
    for (const end of ["pointerleave", "focusout"]) map.addEventListener(end, () => this.leave());
    map.addEventListener("repaint", () => this.redraw(this.room)); // a picture is made from a page that is wider for that moment
    new ResizeObserver(() => {
      if (map.clientWidth && map.clientWidth !== this.room) this.redraw();
    }).observe(map);
  }

  /** Draw a map. The cell that was chosen stays chosen, if the map has the same words. @param {Heat} next */
  draw(next) {
    const { heat } = this;
    const isSame =
      heat?.label === next.label && `${heat.rows}` === `${next.rows}` && `${heat.columns}` === `${next.columns}`;
    this.heat = next;
    if (!isSame) this.chosen = null;
    if (!isSame || (next.here !== undefined && `${next.here}` !== `${this.pressed}`)) this.pressed = [];
    this.redraw();
  }

  /** @param {number} [room] pixels across */
  redraw(room = this.map.clientWidth) {
    const { heat, map } = this;
    if (!heat) return;
    this.room = room;
    const place = (this.place = placed(heat, room || ROOM)),
      { side, left, top, width, height } = place;
    const size = { width: left + width + GAP, height: top + height + GAP },
      href = cells(heat, Math.round(side * 2));
    this.picture = svg(
      "svg",
      { ...size, viewBox: `0 0 ${size.width} ${size.height}` },
      svg("image", { x: left, y: top, width, height, href, preserveAspectRatio: "none" }),
      labels(heat, place),
      marks(heat, place),
      this.frames,
    );
    fill(map, this.picture, legend(heat.measure, heat.ticks ?? WEIGHTS, heat.level ?? itself));
    map.ariaLabel = heat.label;
    map.classList.toggle("is-pressable", Boolean(heat.press));
    map.classList.toggle("is-long", place.isLong);
    if (this.chosen) this.choose(...this.chosen);
    else this.leave();
  }

  /** Mark a cell or a line, and say beside it what it says. @param {number} i @param {number} j */
  choose(i, j) {
    const { heat, place, readout } = this,
      least = heat?.line && Math.max(i, j) >= 0 ? -1 : 0;
    if (!heat || !place || Math.min(i, j) < least || i >= heat.rows.length || j >= heat.columns.length) return null;
    this.chosen = [i, j];
    fill(this.frames, this.marked(i, j, true));
    fill(readout, this.said(i, j));
    putBelow(readout, this.mark.getBoundingClientRect(), this.element.getBoundingClientRect());
    return this.chosen;
  }

  /** @param {number} i @param {number} j */
  said = (i, j) => (isLine(i, j) ? this.heat?.line : this.heat?.describe)?.(i, j);

  /** @param {number} i @param {number} j @param {boolean} hasLines whether the lines through a cell are marked too */
  marked(i, j, hasLines = isLine(i, j)) {
    const { side, left, top, width, height } = /** @type {Place} */ (this.place),
      [x, y] = [left + Math.max(0, j) * side, top + Math.max(0, i) * side],
      visibility = isLine(i, j) ? "hidden" : null;
    this.mark = framed("b-map-mark", { x, y, width: side, height: side, visibility });
    const row = framed("b-map-line", { x: left, y, width, height: side }),
      column = framed("b-map-line", { x, y: top, width: side, height });
    return [hasLines && i >= 0 && row, hasLines && j >= 0 && column, this.mark];
  }

  /** Nothing is chosen; what was pressed stays marked, and the text above the map describes it. */
  leave() {
    const { heat, readout, pressed } = this;
    if (!heat) return;
    this.chosen = null;
    fill(readout);
    const marked = pressed.length || !heat.here ? pressed : [heat.here];
    fill(
      this.frames,
      marked.map((each) => this.marked(...each)),
    );
    this.describe(heat);
  }

  /** The text above the map. @param {Heat} heat */
  describe(heat) {
    const { hint, guide, pressed } = this;
    const isSaid = pressed.length > 0 && heat.here === undefined; // else the page shows it elsewhere
    fill(hint, isSaid ? pressed.map((each, k) => [k > 0 && el("br"), this.said(...each)]) : heat.hint);
    hint.toggleAttribute("data-no-picture", !isSaid);
    fill(guide, heat.axes && el("span", heat.axes), " ", hint);
  }

  /** Press what is chosen, if something comes of it. With Ctrl, a line that was pressed before stays. @param {MouseEvent | KeyboardEvent} event */
  press({ ctrlKey, metaKey }) {
    const { heat, chosen } = this;
    if (!heat || !chosen || !(heat.press || isLine(...chosen))) return false;
    const isSecond = (ctrlKey || metaKey) && [...this.pressed, chosen].every((each) => isLine(...each));
    this.pressed = isSecond ? /** @type {[number, number][]} */ (toggled(this.pressed, chosen).slice(-2)) : [chosen];
    this.describe(heat);
    if (!isLine(...chosen)) heat.press?.(...chosen);
    return true;
  }

  /** Choose the cell under the pointer, if there is one. @param {MouseEvent} event */
  point({ clientX, clientY }) {
    const box = this.picture.getBoundingClientRect(),
      { side, left, top } = /** @type {Place} */ (this.place),
      [i, j] = [clientY - box.top - top, clientX - box.left - left].map((at) => Math.max(-1, Math.floor(at / side))),
      cell = this.choose(i, j);
    if (!cell) this.leave();
    return cell;
  }

  /** @param {KeyboardEvent} event */
  type(event) {
    const { chosen } = this,
      step = MOVES[event.key];
    const isPressed = (event.key === "Enter" || event.key === " ") && this.press(event);
    if (!isPressed && !step) return;
    if (step) {
      if (chosen) this.choose(chosen[0] + step[0], chosen[1] + step[1]);
      else this.choose(...(this.pressed.at(-1) ?? /** @type {[number, number]} */ ([0, 0])));
      this.mark.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    event.preventDefault();
  }
}

/**
 * A map that describes the cell under the pointer, or the one that the arrow keys reach, beside it. Its element
 * stays while the content changes, so that the keyboard focus stays too; it fits its content to its width.
 */
export const heatMap = () => new HeatMap();
