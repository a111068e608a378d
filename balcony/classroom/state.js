// What this page knows of its class (balcony/classroom/tab.py), and how it takes part.

import { announce, keep, kept, on, orError, polling, say, visitor } from "../frame/page.js";
import { address } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { count } from "../parts/numbers.js";

/** @typedef {{number: number, version: number, name: string, colour: string, isDotted: boolean, title: string, recipe: string, seed: string, rate: number, sentences: number, status: keyof typeof import("../compare/runs.js").STATUS_NAMES, step: number, steps: number, losses: (number | null)[], curve: [step: number, mlm: number | null, nsp: number | null][]}} SharedRun */
/** @typedef {[word: string, count: number, probability?: number | null, isRight?: boolean]} Guessed by the room, and once it is uncovered by the model */
/** @typedef {{number: number, texts: string[], gaps: number, open: boolean, count: number, bars: Guessed[][], own: string[] | null, model?: string}} Round see balcony/classroom/covered.py */

const POLL_MS = 1800; // a board follows within two seconds

/** Put another part after # into the address bar. @param {string} hash */
const write = (hash) => history.replaceState(history.state, "", `${location.pathname}${location.search}${hash}`);

/** Take the teacher's token out of the address bar, where others may see it. The part after # is sent to nobody. @param {string} hash */
function taken(hash) {
  const parts = new URLSearchParams(hash.slice(1)),
    token = parts.get("teacher");
  if (token) {
    parts.delete("teacher");
    if (location.hash.includes("teacher=")) write(parts.size ? `#${parts}` : "");
    keep("class-teacher", token); // so that a reload finds it
  }
  return token;
}

export const room = {
  version: 0,
  /** @type {Map<number, SharedRun>} */
  runs: new Map(),
  /** @type {number | null} */
  own: null,
  /** The view that the teacher shows. @type {{number: number, link: string} | null} */
  sent: null,
  /** @type {Round | null} */
  round: null,
  /** Of runs, null while the teacher has set none. @type {{steps: number, parameters: number} | null | undefined} */
  limits: undefined,
  /** The teacher's token, "" on other pages. */
  teacher: taken(window.Balcony.hash) ?? kept("class-teacher") ?? "",
};

// The teacher's address in a page that is open already: it becomes the teacher's, and shows what it did.
addEventListener("hashchange", () => {
  if (!taken(location.hash)) return;
  if (!location.hash) write(address());
  location.reload();
});

/** Call a function at once, and whenever the class has changed. @param {() => void} listener */
export function follow(listener) {
  on("class", listener);
  listener();
}

const poll = polling(async () => {
  take(await answer("class-news", room.version, room.teacher));
  return POLL_MS;
});

/** The limits have changed while the page is open. @param {{steps: number, parameters: number}} limits */
function tell({ steps, parameters }) {
  say(
    `The limits of this class have changed: a run has at most ${count(steps)} steps and ${count(parameters)} parameters.`,
  );
  announce("limits", null);
}

function take({ numbers, runs, ...news }) {
  const isSame = news.version === room.version,
    before = room.limits;
  Object.assign(room, news);
  if (room.limits && before !== undefined && JSON.stringify(before) !== JSON.stringify(room.limits)) tell(room.limits);
  if (news.address) window.Balcony.address = news.address;
  if (numbers) {
    for (const run of runs) room.runs.set(run.number, run);
    for (const number of [...room.runs.keys()]) if (!numbers.includes(number)) room.runs.delete(number);
  }
  if (!isSame) announce("class", null);
}

/** Take part, and get the change at once; an error becomes {"error"}. @param {string} action @param {any[]} values */
export async function act(action, ...values) {
  const done = await orError(answer(`class-${action}`, ...values));
  if (!done.error) poll();
  return done;
}

/** The same with the teacher's token first. @param {string} action @param {any[]} values */
export const teach = (action, ...values) => act(action, room.teacher, ...values);

/** Show the view of a link, as if it stood in the address. @param {string} link the part after # */
export function show(link) {
  write(`#${link}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

visitor.known.then(poll);
