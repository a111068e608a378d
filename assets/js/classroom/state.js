// What this page knows of its class (ui/server/classroom/state.py), and how it takes part.

import { announce, keep, kept, visitor } from "../frame/page.js";
import { count } from "../parts/numbers.js";
import { polling } from "../parts/polling.js";

/** @typedef {{number: number, version: number, name: string, title: string, recipe: string, status: string, step: number, curve: [step: number, mlm: number | null, nsp: number | null][], verdict: string}} SharedRun */
/** @typedef {{number: number, link: string, open: boolean, count: number, bars: [word: string, count: number][][], own: string[] | null}} Round */
/** @typedef {{number: number, title: string, link: string}} Sent */

const POLL_MS = 1800; // a board follows within two seconds

// The part of an address after # is sent to nobody. The token leaves the address bar at once, because others may see that.
const parts = new URLSearchParams(window.Balcony.hash.slice(1));
const given = parts.get("teacher");
if (location.hash.includes("teacher=")) {
  parts.delete("teacher");
  const rest = `${parts}`;
  history.replaceState(history.state, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
}

/** Values of this browser tab that a reload finds: teacher, seen (number of the lesson that was closed), name, run. */
const memory = {
  /** @param {string} key */
  get: (key) => kept(`class-${key}`, ""),
  /** @param {string} key @param {any} value */
  set: (key, value) => keep(`class-${key}`, "", value),
};
if (given) memory.set("teacher", given);

export const room = {
  version: 0,
  here: 0,
  /** @type {Map<number, SharedRun>} */
  runs: new Map(),
  /** @type {number | null} */
  own: null,
  /** @type {Sent | null} */
  lesson: null,
  /** @type {Round | null} */
  round: null,
  sharing: true,
  /** Of runs, null while the teacher has set none. @type {{steps: number, parameters: number} | null | undefined} */
  limits: undefined,
  kept: memory,
  /** The teacher's token, "" on other pages. */
  teacher: given ?? memory.get("teacher") ?? "",
};

/** @type {(() => void)[]} */
const listeners = [];
/** Call a function at once, and whenever the class has changed. @param {() => void} listener */
export function follow(listener) {
  listeners.push(listener);
  listener();
}

/** @param {string} path @param {any[]} values */
async function send(path, ...values) {
  const answer = await fetch(new URL(`balcony/class${path}`, document.baseURI), {
    method: "POST",
    body: JSON.stringify([visitor.token, ...values]),
  });
  if (!answer.ok) throw new Error(`Class: ${answer.status}`);
  return answer.json();
}

const poll = polling(async () => {
  take(await send("", room.version));
  return POLL_MS;
});

/** The limits have changed while the page is open. @param {{steps: number, parameters: number}} limits */
function tell({ steps, parameters }) {
  const text = `The limits of this class have changed: a run has at most ${count(steps)} steps and ${count(parameters)} parameters.`;
  announce("said", { text, until: "press" });
  announce("limits", null);
}

/** @param {any} news */
function take({ numbers, runs, ...news }) {
  const isSame = news.version === room.version && news.here === room.here,
    before = room.limits;
  Object.assign(room, news);
  if (room.limits && before !== undefined && JSON.stringify(before) !== JSON.stringify(room.limits)) tell(room.limits);
  if (numbers) {
    for (const run of runs) room.runs.set(run.number, run);
    for (const number of [...room.runs.keys()]) if (!numbers.includes(number)) room.runs.delete(number);
  }
  if (!isSame) for (const listener of listeners) listener();
}

/** Take part, and get the change at once; an error becomes {"error"}. @param {string} action @param {any[]} values */
export async function act(action, ...values) {
  try {
    const answer = await send(`/${action}`, ...values);
    if (!answer.error) poll();
    return answer;
  } catch (error) {
    console.warn(error);
    return { error: "The server does not answer; try again." };
  }
}

/** The same with the teacher's token first. @param {string} action @param {any[]} values */
export const teach = (action, ...values) => act(action, room.teacher, ...values);

/** Show the view of a link, as if it stood in the address. @param {string} link the part after # */
export function show(link) {
  history.replaceState(history.state, "", `${location.pathname}${location.search}#${link}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

visitor.known.then(poll);
