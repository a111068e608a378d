// The browser's half of ui/views.py.

import { announce, on } from "./parts/page.js";

/** The number of the newest question of each event. @type {Record<string, number>} */
const asked = {};
/** The newest answer to each component, by its id. @type {Record<string, {event: string, number: number, value: any}>} */
const answers = {};

/**
 * The server is asked to answer a question, or with `values` it has: what components show now, by their ids.
 * @param {string} event @param {number} number of the question @param {Record<string, any>} [values]
 */
export function follow(event, number, values) {
  if (!values) asked[event] = number;
  for (const id in values) if (!(number < answers[id]?.number)) answers[id] = { event, number, value: values[id] };
  announce("answers", null);
}

/**
 * Connect a gr.HTML component to a view, which draws its value and the answers of the server. A failing draw is logged
 * and later updates still come: an exception before `watch` would end them for good. While a newer question than the one
 * that the view answers is at the server, the view is `aria-busy`.
 * @param {string} name @param {View} view @param {GradioComponent} component
 */
export function mount(name, view, component) {
  const { element, props, trigger, watch, server } = component;
  const root = /** @type {HTMLElement} */ (element.querySelector(".b-view"));
  const draw = view(root, { trigger, server, options: props.options || {}, setValue: (value) => { props.value = value; } });
  const { id } = /** @type {HTMLElement} */ (element.closest(".block"));
  /** @type {object | undefined} */
  let shown;
  /** @param {any} value */
  const redraw = (value) => { try { draw(value); } catch (error) { console.error(`Balcony.${name}`, error); } };
  const update = () => {
    const answer = answers[id];
    root.ariaBusy = `${asked[answer?.event] > answer?.number}`;
    if (answer !== shown) redraw((shown = answer).value);
  };
  on("answers", update);
  watch("value", () => redraw(props.value));
  redraw(props.value);
  update();
}
