// Words to learn by: a term that a text marks (`withTerms` in balcony/parts/elements.js) is explained at the pointer, the
// keyboard's focus and a press, until Escape. Screen readers find it by aria-describedby, in a list that nobody sees.

import { el, putBelow, termId } from "../parts/elements.js";

/** The term that is explained now. @type {Element | null} */
let term = null;

/** Show the explanation of a term, or none. @param {HTMLElement} tip @param {EventTarget | null} target */
function explain(tip, target) {
  term = target instanceof Element ? target.closest(".b-term") : null;
  tip.hidden = !term;
  if (!term) return;
  tip.textContent = document.getElementById(term.getAttribute("aria-describedby") ?? "")?.textContent ?? "";
  putBelow(tip, term.getBoundingClientRect());
}

/** @param {Record<string, string>} all explanations by term */
export function terms(all) {
  const tip = el("div.b-tip", { "aria-hidden": "true", hidden: "" });
  const texts = Object.entries(all).map(([name, text]) => el("p", { id: termId(name) }, text));
  document.querySelector(".gradio-container")?.append(tip, el("div", { hidden: "" }, texts));
  for (const event of ["pointerover", "focusin", "click"])
    document.addEventListener(event, ({ target }) => explain(tip, target));
  document.addEventListener("focusout", () => explain(tip, null));
  document.addEventListener("scroll", () => explain(tip, term), true); // as the focus makes a browser do
  document.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") explain(tip, null);
  });
}
