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

/** Why Gradio's buttons cannot be pressed, which have no title of their own. */
const WHY = { stop: "No run trains.", remove: "Only a model that you opened can be removed." };
new MutationObserver((records) => {
  for (const [id, why] of Object.entries(WHY)) {
    const button = /** @type {HTMLButtonElement | null} */ (document.getElementById(id));
    if (button && button.disabled !== Boolean(button.title)) disable(button, button.disabled && why);
  }
  // The first button beside one that can no longer be pressed gets the keyboard's focus from it.
  const { activeElement: focused } = document;
  if (focused?.matches("button:disabled") && records.some(({ target }) => target === focused))
    /** @type {HTMLElement | null | undefined} */ (focused.parentElement?.querySelector("button:enabled"))?.focus();
}).observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });
