// A table of numbers as a picture with words beside its rows and columns: attention maps, sentences against sentences.

import { el, svg } from "./elements.js";

const GAP = 4;
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;
const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

const shortened = (word, most) => { const letters = [...word]; return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : word; };
const widest = (words, most) => Math.min(most, Math.max(...words.map((word) => [...word].length)));

/** A word at (x, y), `end` telling which side of it lies there; letters that run leftward keep their order. */
function label(word, most, x, y, size, end, turned) {
  const leftward = RIGHT_TO_LEFT.test(word);
  const text = svg("text", { x, y, "font-size": size, direction: leftward ? "rtl" : "ltr",
    "text-anchor": end === "middle" ? "middle" : (end === "right") === leftward ? "start" : "end", class: "balcony-map-word",
    ...(turned ? { transform: `rotate(-90 ${x} ${y})` } : {}) });
  text.textContent = shortened(word, most);
  text.append(svg("title", {}, word));
  return text;
}

/** The cells as a picture; one without a number gets a grey stroke. */
function cells({ rows, columns, shares, alpha, colour: [red, green, blue] }, side) {
  const canvas = el("canvas", { width: columns.length * side, height: rows.length * side });
  const pen = canvas.getContext("2d"), gap = side > 5 ? 1 : 0;
  pen.strokeStyle = "rgb(124, 133, 148)";
  shares.forEach((share, index) => {
    const x = (index % columns.length) * side, y = Math.floor(index / columns.length) * side;
    if (share === null) {
      pen.beginPath();
      pen.moveTo(x + 0.7 * side, y + 0.3 * side);
      pen.lineTo(x + 0.3 * side, y + 0.7 * side);
      pen.stroke();
      return;
    }
    pen.fillStyle = `rgba(${red}, ${green}, ${blue}, ${alpha(share)})`;
    pen.fillRect(x, y, side - gap, side - gap);
  });
  return canvas.toDataURL();
}

/**
 * A map: an element that stays while its content changes, so that the keyboard keeps its place. The cell that is
 * pointed at, or that the arrow keys go to, is told in `readout`. `draw` takes
 *   rows, columns: words; shares: numbers row by row, null for none; alpha(share): how opaque its cell is; colour;
 *   room: pixels across; largest: pixels of a cell at the most; most: letters of a word at the most; label: the picture's name; hint: told before a cell is;
 *   tell(i, j): what is told of a cell; border: the row and column before which a dashed line runs;
 *   outlined(i, j), crossed(i, j): whether a cell has that mark; press(i, j): what a click or Enter does.
 */
export function heatMap(readout) {
  const element = el("div", { class: "balcony-map", tabindex: "0", role: "application" });
  const mark = svg("rect", { class: "balcony-map-mark" });
  const row = svg("rect", { class: "balcony-map-line" }), column = svg("rect", { class: "balcony-map-line" });
  let now = null, picture = null, side = 0, left = 0, top = 0, at = null;

  const isInside = (i, j) => i >= 0 && j >= 0 && i < now.rows.length && j < now.columns.length;

  function point(i, j) {
    at = [i, j];
    for (const part of [mark, row, column]) part.setAttribute("visibility", "visible");
    for (const [part, name, place] of [[mark, "x", left + j * side], [mark, "y", top + i * side], [row, "y", top + i * side],
      [column, "x", left + j * side]]) part.setAttribute(name, place);
    readout.replaceChildren(...now.tell(i, j));
  }

  function under(event) {
    const box = picture.getBoundingClientRect();
    return [Math.floor((event.clientY - box.top - top) / side), Math.floor((event.clientX - box.left - left) / side)];
  }

  element.addEventListener("pointermove", (event) => {
    const [i, j] = under(event);
    if (isInside(i, j)) point(i, j);
  });
  element.addEventListener("click", (event) => {
    const [i, j] = under(event);
    if (!isInside(i, j)) return;
    point(i, j);
    now.press?.(i, j);
  });
  element.addEventListener("keydown", (event) => {
    const step = MOVES[event.key];
    if (now.press && at && (event.key === "Enter" || event.key === " ")) now.press(...at);
    else if (!step) return;
    else {
      const [i, j] = at ? [at[0] + step[0], at[1] + step[1]] : [0, 0];
      if (isInside(i, j)) point(i, j);
    }
    event.preventDefault();
  });

  function draw(next) {
    const same = now && now.label === next.label && `${now.rows}` === `${next.rows}` && `${now.columns}` === `${next.columns}`;
    now = next;
    if (!same) at = null;
    const { rows, columns, room, largest = 32, most = 14 } = now;
    const guess = Math.max(9, Math.min(largest, (room - 80) / columns.length));
    const letters = Math.max(8, Math.min(13, guess * 0.95)), across = 0.62 * letters;
    left = 12 + widest(rows, most) * across;
    side = Math.max(9, Math.min(largest, (room - left - GAP) / columns.length));
    const turned = widest(columns, most) * across > side;
    top = turned ? 12 + widest(columns, most) * across : 12 + letters;
    const W = columns.length * side, H = rows.length * side, below = 0.35 * letters;
    for (const [part, size] of [[mark, { width: side, height: side }], [row, { x: left, width: W, height: side }],
      [column, { y: top, width: side, height: H }]]) {
      for (const [name, value] of Object.entries({ ...size, visibility: "hidden" })) part.setAttribute(name, value);
    }
    picture = svg("svg", { width: left + W + GAP, height: top + H + GAP, viewBox: `0 0 ${left + W + GAP} ${top + H + GAP}` },
      svg("image", { x: left, y: top, width: W, height: H, href: cells(now, Math.round(side * 2)), preserveAspectRatio: "none" }),
      ...rows.map((word, i) => label(word, most, left - 5, top + (i + 0.5) * side + below, letters, "right")),
      ...columns.map((word, j) => (turned ? label(word, most, left + (j + 0.5) * side + below, top - 5, letters, "left", true)
        : label(word, most, left + (j + 0.5) * side, top - 6, letters, "middle"))));
    if (now.border) {
      const [i, j] = now.border;
      picture.append(svg("path", { d: `M${left} ${top + i * side}h${W}M${left + j * side} ${top}v${H}`, class: "balcony-map-border" }));
    }
    rows.forEach((_, i) => columns.forEach((__, j) => {
      const x = left + j * side, y = top + i * side, third = side / 3;
      if (now.outlined?.(i, j)) picture.append(svg("rect", { x: x + 1, y: y + 1, width: side - 2.5, height: side - 2.5, class: "balcony-map-true" }));
      if (now.crossed?.(i, j)) {
        picture.append(svg("path", { d: `M${x + third} ${y + third}l${third} ${third}m0 ${-third}l${-third} ${third}`, class: "balcony-map-wrong" }));
      }
    }));
    picture.append(row, column, mark);
    element.replaceChildren(picture);
    element.setAttribute("aria-label", now.label);
    element.classList.toggle("is-pressable", Boolean(now.press));
    if (at) point(...at);
    else readout.textContent = now.hint;
  }

  return { element, draw };
}
