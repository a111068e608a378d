// Asking the server again and again.

import { latest } from "../frame/page.js";

const RETRY_MS = 2000;

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
