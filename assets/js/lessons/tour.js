// A short tour of the page: six stops, at the first visit once. It covers nothing but a corner beside the part that it
// names. Pressing a button of that part goes on; pressing a tab ends it, unless the tabs are what it names; Escape ends
// it. Where the browser keeps nothing it does not come by itself. A link or a lesson goes first.

import { button, el } from "../parts/elements.js";
import { choice } from "../frame/page.js";

/** @param {number} start @param {number} last */
const inside = (start, last) => `${Math.max(8, Math.min(start, last - 8))}px`;

/** @param {[where: string, text: string][]} stops @param {boolean} [first] only if this browser has not seen it */
export function tour(stops, first) {
  if (document.querySelector(".b-tour") || (first && (window.Balcony.forgets || choice("tour")))) return;
  choice("tour", "seen");
  new Tour(stops);
}

class Tour {
  at = 0;
  listening = new AbortController();
  text = el("p", { "aria-live": "polite" });
  count = el("span.b-number");
  back = button("Back", () => this.go(-1));
  next = button("Next", () => this.go(1));
  skip = button("Skip", () => this.end());
  tools = el("div.b-tools", this.count, this.back, this.next, this.skip);
  box = el("div.b-view.b-tour", { role: "dialog", "aria-label": "Tour of the page" }, this.text, this.tools);

  /** @param {[where: string, text: string][]} stops */
  constructor(stops) {
    this.stops = stops;
    const type = (/** @type {KeyboardEvent} */ { key }) => {
      if (key === "Escape") this.end();
    };
    const press = (/** @type {any} */ { target }) => {
      if (target.closest("button")?.closest(stops[this.at][0])) this.go(1);
      else if (target.closest(".tab-wrapper")) this.end();
    };
    addEventListener("keydown", type, this.listening);
    addEventListener("click", press, this.listening);
    document.querySelector(".gradio-container")?.append(this.box);
    this.go(0);
    this.next.focus({ preventScroll: true });
  }

  /** @param {number} by */
  go(by) {
    const { stops, box, back, next } = this,
      at = (this.at += by);
    this.unmark();
    if (!stops[at]) return this.end();
    const [where, what] = stops[at],
      place = /** @type {Element} */ (document.querySelector(where));
    place.classList.add("b-toured");
    place.scrollIntoView({ block: "nearest" });
    this.text.textContent = what;
    this.count.textContent = `${at + 1} of ${stops.length}`;
    back.disabled = !at;
    next.textContent = stops[at + 1] ? "Next" : "Done";
    const { left, top, bottom } = place.getBoundingClientRect(),
      { offsetWidth: width, offsetHeight: height } = box,
      isLarge = bottom - top > innerHeight / 2, // what stands above it says how the run goes
      hasRoom = bottom + height + 16 < innerHeight,
      beside = isLarge ? innerHeight : top - height - 8;
    box.style.left = inside(isLarge ? innerWidth : left, innerWidth - width);
    box.style.top = inside(hasRoom ? bottom + 8 : beside, innerHeight - height);
  }

  unmark() {
    document.querySelector(".b-toured")?.classList.remove("b-toured");
  }

  end() {
    this.unmark();
    this.listening.abort();
    this.box.remove();
  }
}
