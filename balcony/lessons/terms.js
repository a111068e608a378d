// Words to learn by: the first time that a tab has a term, it is underlined and carries its explanation, which the
// pointer, the keyboard's focus and a press show, and which Escape hides. Screen readers find it by aria-describedby, in a
// list that nobody sees. The views draw themselves anew whenever they like; the terms are looked for again after that.

import { named } from "../language/language.js";
import { el, putBelow } from "../parts/elements.js";
import { on } from "../frame/page.js";

// Text that the page writes; what a person or a model wrote is never underlined.
const WHERE =
  ".b-view :is(h2, h3, dt, th, caption, .b-empty, .b-lesson-text), .b-view dd:not(bdi *), .b-hint p, .b-heading h2";
const NOT = "button, a, summary, label, svg, bdi, mark, dfn, [data-field], [aria-hidden=true]";
const WAIT_MS = 400;

/** @typedef {{k: number, find: RegExp}} Word the number of a term, and what finds it in the language of the page */

/** @param {string[]} keys several names of a term are divided by | @returns {Word[]} */
const wordsOf = (keys) =>
  keys.map(named).map((names, k) => {
    const find = new RegExp(`(?<![\\w[-])(?:${names})(?![\\w\\]-])`, /[A-Z]/.test(names) ? "" : "i");
    return { k, find };
  });

/** Underline a word where it first stands in a text. @param {Element} place @param {Word} word */
function mark(place, { k, find }) {
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const found = find.exec(node.textContent ?? "");
    if (!found || node.parentElement?.closest(NOT)) continue;
    const rest = /** @type {Text} */ (node).splitText(found.index);
    rest.splitText(found[0].length);
    const term = el("dfn.b-term", { tabindex: 0, "aria-describedby": `term-${k}` });
    rest.replaceWith(term);
    term.append(rest);
    return true;
  }
  return false;
}

/** @param {Iterable<Element>} terms */
function unmark(terms) {
  for (const term of terms) {
    const { previousSibling: before, nextSibling: after } = term; // the first of them has the whole text's translation
    if (before instanceof Text) {
      before.data += `${term.textContent}${after instanceof Text ? after.data : ""}`;
      term.remove();
      if (after instanceof Text) after.remove();
    } else term.replaceWith(...term.childNodes);
  }
}

/** @param {Element} place */
const state = (place) => `${place.textContent} ${place.querySelectorAll(".b-term").length}`;

/** Show the explanation of a term, or none. @param {HTMLElement} tip @param {EventTarget | null} target */
function explain(tip, target) {
  const term = target instanceof Element ? target.closest(".b-term") : null;
  tip.hidden = !term;
  if (!term) return;
  tip.textContent = document.getElementById(term.getAttribute("aria-describedby") ?? "")?.textContent ?? "";
  putBelow(tip, term.getBoundingClientRect());
}

/** @param {Record<string, string>} all explanations by term */
export function terms(all) {
  const tip = el("div.b-tip", { "aria-hidden": "true", hidden: "" });
  const texts = Object.values(all).map((text, k) => el("p", { id: `term-${k}` }, text));
  document.querySelector(".gradio-container")?.append(tip, el("div", { hidden: "" }, texts));
  let words = wordsOf(Object.keys(all)),
    read = new WeakMap(); // place to the text that was looked through, and its terms: only news is read again
  const had = new Set(); // panel and term: what a redraw takes away is looked for in all places
  on("language", () => {
    words = wordsOf(Object.keys(all));
    read = new WeakMap();
    unmark(document.querySelectorAll(".b-term"));
  });

  function scan() {
    for (const panel of document.querySelectorAll("[role=tabpanel], #lesson")) {
      if (!(panel instanceof HTMLElement) || !panel.offsetHeight) continue;
      const places = [...panel.querySelectorAll(WHERE)].filter((place) => place.checkVisibility()),
        fresh = places.filter((place) => read.get(place) !== state(place));
      for (const word of words) {
        const terms = [...panel.querySelectorAll(`[aria-describedby=term-${word.k}]`)],
          key = `${panel.id} ${word.k}`;
        if (terms.some((term) => term.checkVisibility())) continue;
        if ((had.has(key) ? places : fresh).some((place) => mark(place, word))) had.add(key);
        else had.delete(key);
      }
      for (const place of places) read.set(place, state(place));
    }
  }
  let waiting = 0;
  new MutationObserver(() => {
    waiting ||= setTimeout(() => {
      waiting = 0;
      scan();
    }, WAIT_MS);
  }).observe(document.body, { childList: true, subtree: true, attributeFilter: ["hidden", "style"] });
  scan();

  for (const event of ["pointerover", "focusin", "click"])
    document.addEventListener(event, ({ target }) => explain(tip, target));
  for (const event of ["focusout", "scroll"]) document.addEventListener(event, () => explain(tip, null), true);
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") explain(tip, null);
  });
}
