// What a person looks at, as one value (balcony/frame/question.py). `ask` changes it, the address keeps it, and every view
// hears of a change by the event "question". The part after # never reaches the server.

import { announce, on } from "./page.js";

/** Of each part of the question its kind and its first value; the server writes it into the page. A saved page has none. */
const { schema, hash } = window.Balcony ?? { schema: {}, hash: "" };
const FIRST = Object.fromEntries(Object.entries(schema).map(([part, [, first]]) => [part, first]));
const WRITE_MS = 350; // browsers allow 100 changes of the address in 30 s
const BURST = 12; // changes that are written at once
const NUMBER = /^\d{1,9}$/;

/** @param {string} text */
const number = (text) => (NUMBER.test(text) ? Number(text) : undefined);
/** @param {string} text */
const head = (text) => all(text.split("."), number, 2);
/**
 * What `read` makes of each of the texts, undefined where one is nothing to it.
 * @template Value
 * @param {string[]} texts @param {(text: string) => Value | undefined} read @param {number} [count] of the texts
 */
function all(texts, read, count = texts.length) {
  const values = texts.map(read);
  return values.length === count && !values.includes(undefined) ? values : undefined;
}
/** @param {string} text */
function object(text) {
  try {
    return JSON.parse(text) ?? undefined;
  } catch {
    return undefined;
  }
}
/**
 * By kind: a value from its texts in an address, undefined for none; and a value as such texts.
 * @type {Record<string, [read: (text: string, texts: string[]) => any, write: (value: any) => string[]]>}
 */
const KINDS = {
  text: [(text) => text, (value) => [value]],
  texts: [(_, texts) => texts.filter(Boolean), (value) => (value.length ? value : [""])],
  number: [number, (value) => [`${value}`]],
  flag: [(text) => text === "1", (value) => [`${Number(value)}`]],
  numbers: [(text) => all(text.split(",").filter(Boolean), number), (value) => [value.join(",")]],
  head: [head, (value) => [value.join(".")]],
  heads: [
    (text) => all(text.split(",").filter(Boolean), head),
    (value) => [value.map((/** @type {number[]} */ each) => each.join(".")).join(",")],
  ],
  object: [object, (value) => [JSON.stringify(value)]],
};

/**
 * The question, and beside it what an answer needs: a number that counts the changes, and which step the shown run has for it.
 * @type {Record<string, any>}
 */
export const question = { ...FIRST, number: 0, newest: "" };
/** Parts of the page's address that nobody has asked for yet. */
export const untaken = parsed(hash) ?? {};
let writing = 0;
let due = -Infinity; // when the next change may be written
addEventListener("beforeunload", () => {
  if (writing) write();
});

/** Change the question, and tell the views which parts changed. @param {Record<string, any>} update */
export function ask(update) {
  // What is switched off or carried belongs to the model that was shown.
  if ((update.model ?? question.model) !== question.model) update = { off: [], zeroed: [], carried: null, ...update };
  // A person's own guess belongs to the words that were hidden, and a state that is carried to its text and place.
  const text = (/** @type {any} */ value) => JSON.stringify(value),
    differs = (/** @type {string[]} */ ...parts) =>
      question.hidden && parts.some((part) => part in update && text(update[part]) !== text(question[part]));
  if (differs("text", "pair", "hidden")) update = { guess: "", ...update };
  if (differs("text", "pair", "hidden", "place", "swaps")) update = { carried: null, ...update };
  const changed = Object.keys(update).filter((key) => text(update[key]) !== text(question[key]));
  if (!changed.length) return;
  for (const part of changed) delete untaken[part];
  Object.assign(question, update, { number: question.number + 1 });
  clearTimeout(writing);
  if (window.Balcony) writing = setTimeout(write, Math.max(0, due - performance.now())); // a saved page has no address
  announce("question", { changed: new Set(changed) });
}

/** Parts of the question as one text. @param {string[]} names @param {any} [of] an earlier question */
export const partsOf = (names, of = question) => JSON.stringify(names.map((name) => of[name]));

/** Change the question, and open the tab that it names then. @param {Record<string, any>} update */
export function openTab(update) {
  ask(update);
  announce("open", null);
}

/** Call back when one of these parts has changed. @param {string[]} parts @param {() => any} callback */
export const onPart = (parts, callback) =>
  on("question", ({ changed }) => parts.some((part) => changed.has(part)) && callback());

/** The parts of the question that have another value than at first. @returns {Record<string, any>} */
export const changedParts = () => ({
  ...untaken,
  ...Object.fromEntries(
    Object.entries(FIRST)
      .filter(([part, first]) => JSON.stringify(question[part]) !== JSON.stringify(first))
      .map(([part]) => [part, question[part]]),
  ),
});

/** The question as the part of an address after #, without the parts that have their first value. */
export function address() {
  const texts = Object.entries(changedParts()).flatMap(([part, value]) =>
    KINDS[schema[part][0]][1](value).map((text) => [part, text]),
  );
  return `#${new URLSearchParams(texts)}`;
}

/**
 * The question of an address, or null without one. A part that cannot be read is left out.
 * @param {string} hash
 * @returns {Record<string, any> | null}
 */
export function parsed(hash) {
  const parts = new URLSearchParams(hash.replace(/^#/, "")),
    known = [...new Set(parts.keys())].filter((part) => Object.hasOwn(schema, part));
  const found = known
    .map((part) => [part, KINDS[schema[part][0]][0](parts.getAll(part).at(-1) ?? "", parts.getAll(part))])
    .filter(([, value]) => value !== undefined);
  return found.length ? Object.fromEntries(found) : null;
}

/** Take the question of an address; all other parts get their first value. @param {Record<string, any>} found */
export function restore(found) {
  ask({ ...FIRST, ...found });
  announce("restored", null);
}

function write() {
  writing = 0;
  due = Math.max(due, performance.now() - BURST * WRITE_MS) + WRITE_MS;
  history.replaceState(history.state, "", `${location.pathname}${location.search}${address()}`);
}

const OWN_MACHINE = /^(localhost|127\..*|\[::1\])$/;

/** The link to what the page shows, with its last change: of a class the address that others open. */
export function link() {
  clearTimeout(writing);
  write();
  const { address: forOthers } = window.Balcony;
  return forOthers && OWN_MACHINE.test(location.hostname) ? `${forOthers}${location.hash}` : location.href;
}
