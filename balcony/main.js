// The entry: it mounts the views of balcony/views.py, each from the script of its name, also those that Gradio had before the
// scripts had loaded.

import { watchRequests } from "./frame/messages.js";
import { disable, note } from "./parts/elements.js";
import { ask } from "./frame/question.js";
import { mount } from "./views.js";

/** @param {WaitingView} view */
async function mountByName(...[name, component]) {
  let view;
  try {
    ({ view } = await import(`./${name}.js`));
  } catch (error) {
    console.warn(`Balcony: ${name}`, error);
    for (const style of document.querySelectorAll(".opening")) style.remove();
    component.element.append(note("This part of the page did not load. Load the page again.", true));
    return;
  }
  mount(name, view, component);
}
watchRequests();
const { waiting } = window.Balcony;
Object.assign(window.Balcony, { mount: mountByName, ask });
for (const view of waiting) mountByName(...view);

// A key that belongs to an input method, and half a word that it still composes, are nothing that a field has to know.
// In Safari the key that ends a word comes after it, and has this number.
for (const name of ["keydown", "input"]) {
  addEventListener(
    name,
    (/** @type {any} */ event) => {
      if (event.isComposing || event.keyCode === 229) event.stopImmediatePropagation();
    },
    true,
  );
}
addEventListener("compositionend", ({ target }) => target?.dispatchEvent(new Event("input", { bubbles: true })), true);

const OPENING_MS = 500; // in which it gets its height
// What opens comes into the window.
addEventListener("click", ({ target }) => {
  const opened = target instanceof Element && target.closest(".label-wrap, summary")?.parentElement;
  if (!opened) return;
  const { bottom = 0 } = document.getElementById("frame")?.getBoundingClientRect() ?? {};
  opened.style.scrollMarginTop = `${Math.max(0, bottom) + 8}px`; // below the bar, where that stays in sight
  const watch = new ResizeObserver(() => opened.scrollIntoView({ block: "nearest" }));
  watch.observe(opened);
  setTimeout(() => watch.disconnect(), OPENING_MS);
});

/** Why Gradio's buttons cannot be pressed, which have no title of their own. */
const WHY = { stop: "No run trains.", remove: "Only a model that you opened can be removed." };
new MutationObserver(() => {
  for (const [id, why] of Object.entries(WHY)) {
    const button = /** @type {HTMLButtonElement | null} */ (document.getElementById(id));
    if (button && button.disabled !== Boolean(button.title)) disable(button, button.disabled && why);
  }
}).observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
