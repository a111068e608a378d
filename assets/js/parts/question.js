// What a person looks at, as one value (ui/parts/question.py). `ask` changes it, the address keeps it, and every view
// hears of a change by the event "question". The part after # never reaches the server.

import { announce } from "./page.js";

/** @typedef {[layer: number, head: number]} Head counted from 0 */
/**
 * @typedef {object} Question See the fields of Question in ui/parts/question.py.
 * @property {string} model
 * @property {number | null} step
 * @property {string} other
 * @property {string} tab
 * @property {string} text
 * @property {string} pair
 * @property {number[] | null} hidden null: not chosen yet
 * @property {string} guess
 * @property {string} view
 * @property {number} mask
 * @property {Head} head
 * @property {boolean} hide_special
 * @property {Head[]} off
 * @property {Head[]} zeroed other parts set to zero: layer and number of the part
 * @property {Head | null} across
 * @property {number} start
 * @property {string[] | null} choices
 * @property {string | null} word
 * @property {string[] | null} contexts
 * @property {number | null} level
 * @property {number | null} token followed through the stages
 * @property {string} stage
 * @property {object} heads how the views of heads are drawn
 * @property {string} order of the rows of the matrix
 * @property {string} lesson name of the open lesson, "file" for one of a file
 * @property {number} at step of the lesson, from 0
 * @property {object | null} recipe how the shown run is trained again, or why it cannot be
 */

/** @type {Question} */
const NOTHING = {
  model: "",
  step: null,
  other: "",
  tab: "train",
  text: "",
  pair: "",
  hidden: null,
  guess: "",
  view: "lens",
  mask: 0,
  head: [0, 0],
  hide_special: false,
  off: [],
  zeroed: [],
  across: null,
  start: 0,
  choices: null,
  word: null,
  contexts: null,
  level: null,
  token: null,
  stage: "pieces",
  heads: {},
  order: "text",
  recipe: null,
  lesson: "",
  at: 0,
};
const WRITE_MS = 350; // browsers forbid more than about three changes of the address in a second
const NUMBER = /^\d{1,9}$/;
const LINES = ["choices", "contexts"]; // lists of texts

/** The question, and beside it what an answer needs: a number that counts the changes, and the newest step if live. */
export const question = { ...NOTHING, number: 0, newest: 0 };

/** The question as the server gets it: no word is hidden before one is chosen. */
export const sent = () => ({ ...question, hidden: question.hidden ?? [] });
let writing = 0;
let written = -Infinity;
addEventListener("beforeunload", () => {
  if (writing) write();
});

/**
 * Change the question, and tell the views which parts changed.
 * @param {Partial<typeof question>} update
 */
export function ask(update) {
  /** @param {any} value */
  const text = (value) => JSON.stringify(value);
  const changed = Object.keys(update).filter((key) => text(update[key]) !== text(question[key]));
  if (!changed.length) return;
  Object.assign(question, update, { number: question.number + 1 });
  clearTimeout(writing);
  writing = setTimeout(write, Math.max(0, written + WRITE_MS - performance.now()));
  announce("question", { changed: new Set(changed) });
}

/** The parts of the question that are not as they are at first. @returns {Record<string, any>} */
export const changes = () =>
  Object.fromEntries(
    Object.entries(NOTHING)
      .filter(([key, first]) => JSON.stringify(question[key]) !== JSON.stringify(first))
      .map(([key]) => [key, question[key]]),
  );

/** The question as the part of an address after #; what is as it is at first is left out. */
export function address() {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(changes())) {
    if (LINES.includes(key)) for (const line of value.length ? value : [""]) parts.append(key, line);
    else if (["heads", "recipe"].includes(key)) parts.set(key, JSON.stringify(value));
    else if (key === "off" || key === "zeroed") parts.set(key, value.map((head) => head.join(".")).join(","));
    else if (["head", "across"].includes(key)) parts.set(key, value.join("."));
    else parts.set(key, `${value === true ? 1 : value}`);
  }
  return `#${parts}`;
}

/**
 * The question of an address, or null without one. A part that cannot be read is left out.
 * @param {string} hash
 * @returns {Partial<Question> | null}
 */
export function parsed(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const found = {};
  /** @param {string} text */
  const head = (text) => {
    const numbers = text.split(".");
    return numbers.length === 2 && numbers.every((number) => NUMBER.test(number)) ? numbers.map(Number) : undefined;
  };
  /** @param {string} text */
  const json = (text) => {
    try {
      return JSON.parse(text);
    } catch {
      return undefined;
    }
  };
  for (const [key, text] of parts) {
    if (!Object.hasOwn(NOTHING, key)) continue;
    const first = NOTHING[key];
    const list = text.split(",").filter(Boolean);
    let value;
    if (LINES.includes(key)) value = parts.getAll(key).filter(Boolean);
    else if (key === "heads" || key === "recipe") value = json(text) ?? undefined;
    else if (key === "hidden") value = list.every((each) => NUMBER.test(each)) ? list.map(Number) : undefined;
    else if (key === "off" || key === "zeroed") value = list.every(head) ? list.map(head) : undefined;
    else if (key === "head" || key === "across") value = head(text);
    else if (typeof first === "boolean") value = text === "1";
    else if (typeof first === "string" || key === "word") value = text;
    else value = NUMBER.test(text) ? Number(text) : undefined;
    if (value !== undefined) found[key] = value;
  }
  return Object.keys(found).length ? found : null;
}

/** Take the question of an address, everything else as at first. @param {Partial<Question>} found */
export const restore = (found) => ask({ ...NOTHING, ...found });

function write() {
  writing = 0;
  written = performance.now();
  history.replaceState(history.state, "", `${location.pathname}${location.search}${address()}`);
}

/** The link to what the page shows, with its last change. */
export function link() {
  clearTimeout(writing);
  write();
  return location.href;
}
