// Colours of numbers, the same everywhere. The style sheet defines them for both themes.

import { dot, el } from "./parts/elements.js";

const FULL = 60; // per cent of a colour at most, so that letters before it stay readable

/** What a variable of the style sheet is now. @param {string} name */
export const colour = (name) =>
  getComputedStyle(/** @type {Element} */ (document.querySelector(".gradio-container")))
    .getPropertyValue(`--b-${name}`)
    .trim();

/** The 256 colours between those of a variable of the style sheet, red, green and blue of each. @param {string} variable */
function between(variable) {
  const stops = colour(variable)
    .split(" ")
    .map((stop) => [1, 3, 5].map((at) => parseInt(stop.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, level) => {
    const at = (level / 255) * (stops.length - 1),
      from = Math.min(stops.length - 2, Math.floor(at));
    return stops[from].map((part, index) => Math.round(part + (at - from) * (stops[from + 1][index] - part)));
  });
}

/** The colours of the shown theme: of numbers from 0 to 1, and from 0 to -1. */
function scale() {
  const more = between("map"),
    less = between("opposite");
  /** @param {number} level -1 to 1 */
  return (level) => (level < 0 ? less : more)[Math.round(255 * Math.min(1, Math.abs(level)))];
}

/** A function from a level of -1 to 1 to the text of its colour. */
export function colours() {
  const of = scale();
  return (/** @type {number} */ level) => `rgb(${of(level).join(", ")})`;
}

/** The pixel of each byte. */
export function pixels() {
  const of = scale(),
    parts = new Uint8ClampedArray(256 * 4);
  for (let byte = 0; byte < 256; byte += 1) parts.set([...of(byte / 255), 255], byte * 4);
  return new Uint32Array(parts.buffer);
}

/** Small weights and changes stay visible: the level of a number is its root. @param {number} value */
export const level = (value) => Math.sign(value) * Math.sqrt(Math.abs(value));
export const WEIGHTS = [0, 0.01, 0.1, 0.5, 1]; // in the legend of a map of weights

/** @param {number} value -1 to 1; the colour of a number that stands before it as text */
export const behindText = (value) =>
  `color-mix(in srgb, var(--b-${value < 0 ? "less" : "more"}) ${FULL * Math.min(1, Math.abs(value))}%, transparent)`;

/** @template {HTMLElement} Made @param {Made} element @param {number} level -1 to 1 */
export function tint(element, level) {
  element.style.background = behindText(level);
  return element;
}

/**
 * The colour behind a word or a head, by the change of an answer without it: one colour where it helped, another where it
 * hindered.
 * @param {number} loss how much worse the answer is without it
 */
export const effect = (loss) => behindText(level(loss));

new MutationObserver(repaint).observe(document.body, { attributeFilter: ["class"] });
addEventListener("resize", repaint);

/** What a script paints hears of another theme and of another size of the window by the event "repaint". */
export function repaint() {
  for (const part of document.querySelectorAll("[data-painted]")) part.dispatchEvent(new Event("repaint"));
}

/** @param {string} colour @param {string} text */
const swatch = (colour, text) => el("span.b-swatch", dot(colour), text);

/** What `effect` means. @param {(change: number) => string} words of what an answer loses or, negative, gains without it */
export function effectLegend(words) {
  const sample = (/** @type {number} */ loss) => swatch(effect(loss), words(loss));
  const [helped, hindered] = [
    [0.5, 0.1, 0.01],
    [-0.01, -0.1, -0.5],
  ].map((losses) => losses.map(sample));
  return el("div.b-legend", el("b", "Helped"), helped, el("b", "Hindered"), hindered);
}

/**
 * What the colours of a map mean.
 * @param {string} name of the numbers @param {number[]} values @param {(value: number) => number} of level of a value
 */
export function legend(name, values, of) {
  const colour = colours();
  const swatches = values.map((value) => swatch(colour(of(value)), `${value}`.replace("-", "\u2212")));
  return el("div.b-legend", el("span", name), swatches);
}
