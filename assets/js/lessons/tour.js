// A short tour of the page: six stops, at the first visit once. It covers nothing but a corner beside the part that it
// names, Escape ends it, and where the browser keeps nothing it does not come by itself. A link or a lesson goes first.

import { el } from "../parts/elements.js";

const KEY = "balcony-tour";
/** @type {[where: string, text: string][]} */
const STOPS = [
  ["#start", "Start trains a small BERT with random weights on a nine-line dialogue, in a few seconds. Your own text works too."],
  ["#watch", "Its losses fall while it learns, and its guesses for hidden words change from noise to the right words."],
  [".balcony-model", "The chosen model holds for every tab. Before your first run it is one that comes with Balcony."],
  [".balcony-time", "Drag this slider, once you have a run, to see what the model knew at an earlier step."],
  ["#tabs > .tab-wrapper", "In the other tabs you ask the model: hide words, judge pairs of sentences, see what each head attends to."],
  ["#lessons", "Lessons go through the page step by step. Underlined words explain themselves. Copy link keeps what you see."],
];

/** @param {boolean} [first] only if this browser has not seen it */
export function tour(first) {
  try {
    if (first && localStorage.getItem(KEY)) return;
    localStorage.setItem(KEY, "seen");
  } catch { if (first) return; }
  let at = 0;
  const text = el("p", { "aria-live": "polite" }), count = el("span", { class: "balcony-number" });
  const button = (/** @type {string} */ name, /** @type {() => void} */ press) => {
    const item = el("button", { type: "button", class: "balcony-small-button" }, name);
    item.addEventListener("click", press);
    return item;
  };
  const back = button("Back", () => go(-1)), next = button("Next", () => go(1)), skip = button("Skip", end);
  const box = el("div", { class: "balcony-view balcony-tour", role: "dialog", "aria-label": "Tour of the page" }, text,
    el("div", { class: "balcony-tools" }, count, back, next, skip));

  /** @param {number} by */
  function go(by) {
    mark(false);
    at += by;
    if (at === STOPS.length) { end(); return; }
    const place = mark(true);
    text.textContent = STOPS[at][1];
    count.textContent = `${at + 1} of ${STOPS.length}`;
    back.disabled = at === 0;
    next.textContent = at === STOPS.length - 1 ? "Done" : "Next";
    const { left, bottom } = place?.getBoundingClientRect() ?? { left: 0, bottom: 0 };
    box.style.left = `${Math.max(8, Math.min(left, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${Math.max(8, Math.min(bottom + 8, innerHeight - box.offsetHeight - 8))}px`;
  }

  /** @param {boolean} is */
  function mark(is) {
    const place = document.querySelector(STOPS[at]?.[0]);
    place?.classList.toggle("balcony-toured", is);
    if (is) place?.scrollIntoView({ block: "nearest" });
    return place;
  }

  function end() {
    document.querySelector(".balcony-toured")?.classList.remove("balcony-toured");
    document.removeEventListener("keydown", escape);
    box.remove();
  }
  /** @param {KeyboardEvent} event */
  function escape({ key }) { if (key === "Escape") end(); }
  document.addEventListener("keydown", escape);
  document.querySelector(".gradio-container")?.append(box);
  go(0);
  next.focus({ preventScroll: true });
}
