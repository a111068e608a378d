// A short tour of the page: six stops, at the first visit once. It covers nothing but a corner beside the part that it
// names. Pressing a button of that part goes on; another tab, where the part is not, ends it, and so does Escape. Where
// the browser keeps nothing it does not come by itself. A link or a lesson goes first.

import { el } from "../parts/elements.js";
import { choice } from "../parts/page.js";

/**
 * @param {[where: string, text: string][]} stops @param {boolean} [first] only if this browser has not seen it
 */
export function tour(stops, first) {
  if (first && choice("tour") || !choice("tour", "seen") && first) return;
  let at = 0;
  const text = el("p", { "aria-live": "polite" }), count = el("span", { class: "b-number" });
  const button = (/** @type {string} */ name, /** @type {() => void} */ press) => {
    const item = el("button", { class: "b-small-button" }, name);
    item.addEventListener("click", press);
    return item;
  };
  const back = button("Back", () => go(-1)), next = button("Next", () => go(1)), skip = button("Skip", end);
  const box = el("div", { class: "b-view b-tour", role: "dialog", "aria-label": "Tour of the page" }, text,
    el("div", { class: "b-tools" }, count, back, next, skip));

  /** @param {number} by */
  function go(by) {
    mark(false);
    at += by;
    if (at === stops.length) { end(); return; }
    const place = mark(true);
    text.textContent = stops[at][1];
    count.textContent = `${at + 1} of ${stops.length}`;
    back.disabled = at === 0;
    next.textContent = at === stops.length - 1 ? "Done" : "Next";
    const { left, bottom } = place?.getBoundingClientRect() ?? { left: 0, bottom: 0 };
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 8, innerHeight - box.offsetHeight - 8))}px`;
  }

  /** @param {boolean} is */
  function mark(is) {
    const place = document.querySelector(stops[at]?.[0]);
    place?.classList.toggle("b-toured", is);
    if (is) place?.scrollIntoView({ block: "nearest" });
    return place;
  }

  function end() {
    document.querySelector(".b-toured")?.classList.remove("b-toured");
    document.removeEventListener("keydown", escape);
    document.removeEventListener("click", follow);
    box.remove();
  }
  /** @param {MouseEvent} event */
  function follow({ target }) {
    const pressed = target instanceof Element && !box.contains(target) && target.closest("button");
    if (!pressed) return;
    if (document.querySelector(stops[at][0])?.contains(pressed)) go(1);
    else if (pressed.closest(".tab-wrapper")) end();
  }
  /** @param {KeyboardEvent} event */
  function escape({ key }) { if (key === "Escape") end(); }
  document.addEventListener("keydown", escape);
  document.addEventListener("click", follow);
  document.querySelector(".gradio-container")?.append(box);
  go(0);
  next.focus({ preventScroll: true });
}
