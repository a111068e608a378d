// A short tour of the page: six stops, at the first visit once. It covers nothing but a corner beside the part that it
// names. Pressing a button of that part goes on; pressing a tab ends it, unless the tabs are what it names; Escape ends
// it. Where the browser keeps nothing it does not come by itself. A link or a lesson goes first.

import { el } from "../parts/elements.js";
import { choice } from "../frame/page.js";

/**
 * @param {[where: string, text: string][]} stops @param {boolean} [first] only if this browser has not seen it
 */
export function tour(stops, first) {
  if (document.querySelector(".b-tour") || (first && (window.Balcony.forgets || choice("tour")))) return;
  choice("tour", "seen");
  let at = 0;
  const listening = new AbortController();
  const text = el("p", { "aria-live": "polite" }),
    count = el("span", { class: "b-number" });
  const button = (/** @type {string} */ name, /** @type {() => void} */ press) => {
    const item = el("button", { class: "b-small-button" }, name);
    item.onclick = press;
    return item;
  };
  const back = button("Back", () => go(-1)),
    next = button("Next", () => go(1));
  const box = el(
    "div",
    { class: "b-view b-tour", role: "dialog", "aria-label": "Tour of the page" },
    text,
    el("div", { class: "b-tools" }, count, back, next, button("Skip", end)),
  );

  /** @param {number} start @param {number} last */
  const inside = (start, last) => `${Math.max(8, Math.min(start, last - 8))}px`;
  const unmark = () => document.querySelector(".b-toured")?.classList.remove("b-toured");

  /** @param {number} by */
  function go(by) {
    unmark();
    at += by;
    if (!stops[at]) {
      end();
      return;
    }
    const [where, what] = stops[at],
      place = /** @type {Element} */ (document.querySelector(where));
    place.classList.add("b-toured");
    place.scrollIntoView({ block: "nearest" });
    text.textContent = what;
    count.textContent = `${at + 1} of ${stops.length}`;
    back.disabled = !at;
    next.textContent = stops[at + 1] ? "Next" : "Done";
    const { left, bottom } = place.getBoundingClientRect();
    box.style.left = inside(left, innerWidth - box.offsetWidth);
    box.style.top = inside(bottom + 8, innerHeight - box.offsetHeight);
  }

  function end() {
    unmark();
    listening.abort();
    box.remove();
  }
  addEventListener(
    "keydown",
    ({ key }) => {
      if (key === "Escape") end();
    },
    listening,
  );
  addEventListener(
    "click",
    (/** @type {any} */ { target }) => {
      if (target.closest("button")?.closest(stops[at][0])) go(1);
      else if (target.closest(".tab-wrapper")) end();
    },
    listening,
  );
  document.querySelector(".gradio-container")?.append(box);
  go(0);
  next.focus({ preventScroll: true });
}
