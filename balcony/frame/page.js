// What the views of one page share.

/** A model to choose; of a run some of its steps, null before the first one. @typedef {[key: string, name: string, detail: string, steps: number[] | null, isOwn: boolean]} Listed */
/**
 * Events between the views, with their details.
 * @typedef {object} Events
 * @property {{changed: Set<string>}} question parts of the question changed
 * @property {{key: string}} shown the server has described the shown model, after another one was chosen
 * @property {Listed[]} models the list of models is new
 * @property {null} answers the server is asked to answer a question, or it has, or it did not
 * @property {null} again questions without an answer are to be asked again
 * @property {null} draw other sentences of the text are to be drawn at random
 * @property {null} open the question names another tab, which is to be opened
 * @property {null} failed the server could not answer a question: perhaps its model is gone
 * @property {null} restored the question of an address was taken
 * @property {{text: string, until: "press" | "answer" | "closed"}} said a sentence for the person, see frame/messages.js
 * @property {null} reached the server has answered a request
 * @property {{text: string}} refused why a form cannot be trained or a press was refused, "" where a form can be
 * @property {{kind: string}} kind a person says of what kind the text of the form is
 * @property {null} elsewhere a run was started or stopped by another part of the page
 * @property {null} class a class has changed
 * @property {null} limits a teacher has changed the limits of runs
 * @property {Record<string, string>} fill a seed, a learning rate or a text is to be put into the form of the Train tab
 * @property {{run: string, steps: number[], points: (number | null)[][]}} snapshots a run has new snapshots, or points of its curves
 * @property {{tab: string, model: string, steps: number[]}} right at these steps of a run a word that the tab shows is first right
 * @property {null} status the run of the page has another status
 * @property {{run: string, step: number | null, text: string, hasMore: boolean}} verdict the exam of a run at a step, null for the newest, and whether more steps may help
 * @property {null} news the server has told of the run of the page
 * @property {null} runs the page shows another run, or its status changed
 * @property {null} renamed a run or a model has another name
 */

export const RETRY_MS = 2000; // after a poll that failed
export const NO_ANSWER = "The server did not answer; try again.";
const bus = new EventTarget();
const { promise: known, resolve: resolveKnown } = Promise.withResolvers();
/** The visitor's token. `known` resolves when the server has answered with it. */
export const visitor = { token: "", known };

/** The visitor's token is known, or another one. @param {string} token */
export function setVisitor(token) {
  visitor.token = token;
  resolveKnown(null);
}

/**
 * @template {keyof Events} Name
 * @param {Name} name @param {Events[Name]} detail
 */
export function announce(name, detail) {
  bus.dispatchEvent(new CustomEvent(name, { detail }));
}

/** Say a sentence until the next press. @param {string} text */
export const say = (text) => announce("said", { text, until: "press" });

/**
 * @template {keyof Events} Name
 * @param {Name} name @param {(detail: Events[Name]) => void} callback
 */
export function on(name, callback) {
  bus.addEventListener(name, (event) => callback(/** @type {CustomEvent} */ (event).detail));
}

/**
 * Keep a value while this browser tab is open, so that a reload finds it.
 * @param {string} name @param {any} value
 */
export function keep(name, value) {
  try {
    sessionStorage.setItem(`balcony-${name}`, JSON.stringify(value));
  } catch (error) {
    console.warn(error);
  }
}

/** What was kept under that name, else null. @param {string} name */
export function kept(name) {
  try {
    return JSON.parse(sessionStorage.getItem(`balcony-${name}`) ?? "null");
  } catch (error) {
    console.warn(error);
    return null;
  }
}

/**
 * A choice of the person, which this browser keeps: the new one, else the kept one, else null.
 * @param {string} name @param {string} [value] the new one
 */
export function choice(name, value) {
  if (value) localStorage.setItem(`balcony-${name}`, value);
  return localStorage.getItem(`balcony-${name}`);
}

/** An answer of the server; where there is none, why, under `error`. @param {Promise<any>} answer @returns {Promise<any>} */
export const orError = (answer) => answer.catch((/** @type {Error} */ { message }) => ({ error: message }));

/**
 * A function that runs `work` once at a time: of the calls during a run only the last one follows.
 * @template {any[]} Values
 * @param {(...values: Values) => Promise<void>} work
 * @returns {(...values: Values) => Promise<void>}
 */
export function latest(work) {
  /** @type {Values | null} */
  let waiting = null;
  let busy = false;
  return async function (...values) {
    waiting = values;
    if (busy) return;
    busy = true;
    try {
      while (waiting) {
        /** @type {Values} */
        const next = waiting;
        waiting = null;
        await work(...next);
      }
    } finally {
      busy = false;
    }
  };
}

/**
 * A function that asks at once, and then as often as `ask` says. While the page is hidden it asks rarely or not at all, and
 * at once when it is seen again.
 * @param {() => Promise<number | void>} ask returns the milliseconds until the next call; nothing: there is none
 * @param {number} [hidden] milliseconds until the next call while the page is hidden; without it there is none
 */
export function polling(ask, hidden) {
  let timer = 0;
  const isSeen = () => document.visibilityState === "visible";
  const poll = latest(async () => {
    clearTimeout(timer);
    const wait = await ask().catch((error) => {
      console.warn(error);
      return RETRY_MS;
    });
    clearTimeout(timer);
    const next = wait === undefined || isSeen() ? wait : hidden;
    if (next !== undefined) timer = setTimeout(poll, next);
  });
  document.addEventListener("visibilitychange", () => {
    if (isSeen()) poll();
  });
  return poll;
}
