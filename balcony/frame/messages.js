// Sentences that stand in the window wherever the page is scrolled: why a press was refused, beside the pressed button, and
// that the server does not answer. A handler of the server sends one as the value of this view (`Page.say` in
// balcony/frame/page.py), a script by the event "said".

import { button, draws, el, note, putBelow } from "../parts/elements.js";
import { announce, keep, kept, NO_ANSWER, on, RETRY_MS } from "./page.js";

/** @typedef {"press" | "answer" | "closed"} Until when a sentence goes, if nobody closes it: at the next press or what a person types, at the next answer of the server, never, also where the page loads itself again */

const LOST = "The server does not answer. Check that it still runs and that this machine is online.";
const FORGETS =
  "This browser gives this page no storage. A reload keeps your runs and models; a new tab forgets them, and so does a reload of another site's page around this one. Download what you want to keep.";
const FOLLOW_MS = 400;
const RAREST_MS = 60000; // between two looks for a server that is gone
const STANDING = "standing";
const BUTTONS = "button, summary, [role=button]";

/** Let a message stand beside a button while that is in the window, else among the others. @param {HTMLElement} message @param {Element | null} pressed */
function stand(message, pressed) {
  const place = pressed?.getBoundingClientRect() ?? new DOMRect(),
    isBeside = place.width > 0 && place.top >= 0 && place.bottom <= innerHeight;
  message.classList.toggle("is-beside", isBeside);
  if (isBeside) putBelow(message, place);
}

class Messages {
  /** @type {Map<string, [message: HTMLElement, until: Until, pressed: Element | null]>} */
  shown = new Map();
  closed = new Set(); // not said again before the next press
  /** The button that was pressed last, and nothing else since. @type {Element | null} */
  pressed = null;
  following = 0;
  standAll = () => {
    for (const [message, , pressed] of this.shown.values()) stand(message, pressed);
  };

  /** @param {HTMLElement} root */
  constructor(root) {
    this.root = root;
    /** In a frame that is as tall as its page, the window is the part of it that can be seen. */
    this.place = new IntersectionObserver(([{ intersectionRect: seen }], observer) => {
      if (seen.height) root.style.bottom = `${Math.max(0, innerHeight - seen.bottom)}px`;
      observer.disconnect();
    });
    on("said", (said) => this.say(said));
    on("reached", () => this.end("answer"));
    addEventListener("click", ({ target }) => this.press(target), true);
    const change = () => {
      this.pressed = null;
      this.end("press");
    };
    addEventListener("input", change, true);
    addEventListener("keydown", ({ key }) => {
      if (key === "Escape") for (const text of this.shown.keys()) this.remove(text);
    });
    for (const moved of ["scroll", "resize"]) addEventListener(moved, this.standAll, { capture: true, passive: true });
    new ResizeObserver(this.standAll).observe(document.body);
    if (window.Balcony.forgets) this.say({ text: FORGETS, until: "closed" });
    for (const text of kept(STANDING) ?? []) this.say({ text, until: "closed" });
  }

  /** What stands until it is closed is there after a reload: Gradio loads the page again when its server is back. */
  keep() {
    const standing = [...this.shown].filter(([, [, until]]) => until === "closed");
    keep(
      STANDING,
      standing.map(([text]) => text),
    );
  }

  /** @param {EventTarget | null} target */
  press(target) {
    if (target instanceof Node && this.root.contains(target)) return;
    this.closed.clear();
    this.end("press");
    this.pressed = target instanceof Element ? target.closest(BUTTONS) : null;
  }

  /** @param {{text: string, until?: Until, done?: boolean}} said done: it confirms a press */
  say({ text, until = "press", done = false }) {
    const { closed, shown } = this;
    if (closed.has(text) || shown.has(text)) return;
    const close = () => {
      closed.add(text);
      this.remove(text);
    };
    const message = el(
      "div.b-message",
      note(text, until !== "closed" && !done),
      button("✕", close, { "aria-label": "Close this message" }),
    );
    shown.set(text, [message, until, until === "press" ? this.pressed : null]);
    if (until === "closed") this.keep();
    this.root.append(message);
    if (done) message.role = "status";
    else announce("refused", { text });
    requestAnimationFrame(this.standAll);
    this.follow();
  }

  /** @param {string} text */
  remove(text) {
    const [message, until] = this.shown.get(text) ?? [];
    message?.remove();
    this.shown.delete(text);
    if (until === "closed") this.keep();
  }

  /** @param {Until} until */
  end(until) {
    for (const [text, [, when]] of [...this.shown]) if (when === until) this.remove(text);
  }

  follow() {
    clearTimeout(this.following);
    this.place.observe(document.documentElement);
    if (this.shown.size && top !== window) this.following = setTimeout(() => this.follow(), FOLLOW_MS);
  }

  /** @param {{text: string, done?: boolean} | null} value */
  draw(value) {
    if (value) this.say(value);
  }
}

/** @type {View} */
export const view = (root) => draws(new Messages(root));

/** Say when the server does not answer a request, or refuses it, whoever asked: a view, or Gradio for a button. */
export function watchRequests() {
  const { fetch } = window;
  let isLost = false,
    wait = RETRY_MS;
  function reached() {
    announce("reached", null);
    if (isLost) announce("again", null);
    isLost = false;
  }
  /** Until the server is there again, look for it. @param {string} text */
  async function lose(text) {
    announce("said", { text, until: "answer" });
    if (isLost) return;
    for (isLost = true; isLost; wait = Math.min(2 * wait, RAREST_MS)) {
      await new Promise((resolve) => setTimeout(resolve, wait));
      const answer = isLost && (await fetch(new URL("health", document.baseURI)).catch(() => null));
      if (answer && answer.ok) reached();
    }
  }
  window.fetch = async (...request) => {
    try {
      const answer = await fetch(...request);
      const why = !answer.ok && (await refusal(answer.clone()));
      if (!why) reached();
      else if (why === NO_ANSWER) lose(why);
      else announce("said", { text: why, until: "press" });
      if (!why) wait = RETRY_MS;
      return answer;
    } catch (error) {
      if (/** @type {Error} */ (error).name !== "AbortError") lose(LOST);
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
