// The browser's half of ui/views.py.

import { on } from "./parts/page.js";

/** The number of the question that each event was last triggered with. @type {Record<string, number>} */
const asked = {};
on("asked", ({ event, number }) => { asked[event] = number; });

/**
 * Connect a gr.HTML component to a view. A failing draw is logged and later updates still come: an exception before
 * `watch` would end them for good. While a newer question than the one that the view answers is at the server, the view
 * is `aria-busy`.
 * @param {string} name @param {View} view @param {GradioComponent} component
 */
export function mount(name, view, component) {
  const { element, props, trigger, watch, server } = component;
  const root = /** @type {HTMLElement} */ (element.querySelector(".b-view"));
  const draw = view(root, { trigger, server, options: props.options || {}, setValue: (value) => { props.value = value; } });
  let [event, number] = ["", 0];
  const wait = () => { root.ariaBusy = `${(asked[event] ?? 0) > number}`; };
  const redraw = () => {
    [event, number] = props.value?.answers ?? [event, Infinity];
    wait();
    try { draw(props.value); } catch (error) { console.error(`Balcony.${name}`, error); }
  };
  on("asked", wait);
  watch("value", redraw);
  redraw();
}
