// Sentences that stand in the window wherever the page is scrolled: why a press was refused, that the server does not
// answer. A handler of the server sends one as the value of this view (`Page.say` in ui/frame/page.py), a script by the
// event "said".

import { el, note } from "../parts/elements.js";
import { announce, on } from "./page.js";

/** @typedef {"press" | "answer" | "closed"} Until when a sentence goes, if nobody closes it: at the next press, at the next answer of the server, never */

const LOST = "The server does not answer. Check that it still runs and that this machine is online.";
const NO_ANSWER = "The server did not answer; try again.";
const FORGETS =
  "This browser lets the page keep nothing here, so a reload forgets your runs and models. Download what you want to keep.";
const FOLLOW_MS = 400;

/** @type {View} */
export function view(root) {
  /** @type {Map<string, [note: HTMLElement, until: Until]>} */
  const shown = new Map();
  const closed = new Set(); // not said again before the next press
  let following = 0;

  /** In a frame that is as tall as its page, the window is the part of it that can be seen. */
  const place = new IntersectionObserver(([{ intersectionRect: seen }], observer) => {
    if (seen.height) root.style.bottom = `${Math.max(0, innerHeight - seen.bottom)}px`;
    observer.disconnect();
  });

  /** @param {{text: string, until?: Until}} said */
  function say({ text, until = "press" }) {
    if (closed.has(text) || shown.has(text)) return;
    const close = el("button", { class: "b-small", "aria-label": "Close this message" }, "✕");
    const message = el("div", { class: "b-message" }, note(text, until !== "closed"), close);
    close.addEventListener("click", () => {
      closed.add(text);
      remove(text);
    });
    shown.set(text, [message, until]);
    root.append(message);
    follow();
  }

  /** @param {string} text */
  function remove(text) {
    shown.get(text)?.[0].remove();
    shown.delete(text);
  }

  /** @param {Until} until */
  function end(until) {
    for (const [text, [, when]] of [...shown]) if (when === until) remove(text);
  }

  function follow() {
    clearTimeout(following);
    place.observe(document.documentElement);
    if (shown.size && top !== window) following = setTimeout(follow, FOLLOW_MS);
  }

  on("said", say);
  on("reached", () => end("answer"));
  addEventListener(
    "click",
    ({ target }) => {
      if (target instanceof Node && root.contains(target)) return;
      closed.clear();
      end("press");
    },
    true,
  );
  addEventListener("keydown", ({ key }) => {
    if (key === "Escape") for (const text of shown.keys()) remove(text);
  });
  if (window.Balcony.forgets) say({ text: FORGETS, until: "closed" });

  return function draw(/** @type {{text: string} | null} */ value) {
    if (value) say(value);
  };
}

/** Say when the server does not answer a request, or refuses it, whoever asked: a view, or Gradio for a button. */
export function watchRequests() {
  const { fetch } = window;
  window.fetch = async (...request) => {
    try {
      const answer = await fetch(...request);
      if (answer.ok) announce("reached", null);
      else announce("said", { text: await refusal(answer.clone()), until: "press" });
      return answer;
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") announce("said", { text: LOST, until: "answer" });
      throw error;
    }
  };
}

/** The server's own sentence, where it has one. @param {Response} answer @returns {Promise<string>} */
async function refusal(answer) {
  const text = await answer.text().catch(() => "");
  if (answer.headers.get("content-type")?.startsWith("text/plain")) return text || NO_ANSWER;
  try {
    return JSON.parse(text).error || NO_ANSWER;
  } catch {
    return NO_ANSWER;
  }
}
