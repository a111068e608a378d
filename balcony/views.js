// The browser's half of balcony/views.py, and what becomes of a view whose question has no answer.

import { button, el, keepingSelection, note } from "./parts/elements.js";
import { announce, latest, NO_ANSWER, on } from "./frame/page.js";
import { answer } from "./frame/server.js";

/** The newest question about each component, by its id, and why it has no answer. @type {Record<string, {number: number, failure: string | null}>} */
const asked = {};
/** The newest answer to each component, by its id, and its question. @type {Record<string, {question: any, value: any}>} */
const answers = {};

/** The server is asked what components show. @param {string[]} ids @param {number} number of the question */
export function expect(ids, number) {
  for (const id of ids) asked[id] = { number, failure: null };
  announce("answers", null);
}

/**
 * The server has answered. An older answer than a component has is dropped.
 * @param {any} question @param {Record<string, any>} values by the ids of components
 */
export function receive(question, values) {
  for (const id in values)
    if (!(question.number < answers[id]?.question.number)) answers[id] = { question, value: values[id] };
  announce("answers", null);
}

/** A question stays without an answer. @param {string[]} ids @param {number} number @param {string} why said above the first component */
export function lose(ids, number, why) {
  ids.forEach((id, index) => {
    if (asked[id]?.number === number) asked[id].failure = index ? "" : why;
  });
  announce("answers", null);
}

// Questions without an answer are asked again when the page is online and seen, or when the person says so.
const again = () => {
  if (document.visibilityState === "visible") announce("again", null);
};
addEventListener("online", again);
document.addEventListener("visibilitychange", again);

/**
 * Dim a part of the page that does not belong to what was asked, and say why above it.
 * @param {HTMLElement} part @param {string | null} failure null: it does belong, "" : it is said above another part
 */
function tell(part, failure) {
  part.classList.toggle("is-stale", failure !== null);
  const before = part.previousElementSibling,
    line = before?.matches(".b-failure") ? before : null;
  if ((line?.querySelector("p")?.textContent ?? "") === (failure ?? "")) return;
  line?.remove();
  if (failure)
    part.before(el("div.b-failure", note(failure, true), button("Ask again", again, { "data-no-picture": "" })));
}

/**
 * A function that asks the server for a part of the page, with `latest`. Without an answer the part is dimmed, says so, and
 * is asked again.
 * @template {any[]} Values
 * @param {HTMLElement} part @param {(...values: Values) => Promise<void>} work
 */
export function asking(part, work) {
  /** @type {Values | null} */
  let lost = null;
  const ask = latest(async (/** @type {Values} */ ...values) => {
    lost = null;
    try {
      await work(...values);
    } catch (error) {
      console.warn(error);
      lost = values;
    }
    tell(part, lost && NO_ANSWER);
  });
  on("again", () => {
    if (lost) ask(...lost);
  });
  return ask;
}

/** The options with which the page came: Gradio loses those of a view that gets an empty update before it is mounted. @param {string} id */
const configured = (id) =>
  /** @type {any} */ (window).gradio_config.components.find((/** @type {any} */ { props }) => props.elem_id === id)
    ?.props.props?.options ?? {};

/**
 * Connect a gr.HTML component to a view, which draws its value and the answers of the server. A failing draw is logged
 * and later updates still come: an exception before `watch` would end them for good. While a newer question than the one
 * that the view answers is at the server, the view is `aria-busy`.
 * @param {string} name @param {View} view @param {GradioComponent} component
 */
export function mount(name, view, component) {
  const { element, props, trigger, watch } = component;
  const root = /** @type {HTMLElement} */ (element.querySelector(".b-view"));
  const { id } = /** @type {HTMLElement} */ (element.closest(".block"));
  const draw = view(root, {
    trigger,
    answer,
    get options() {
      return props.options || configured(id);
    },
    setValue: (value) => {
      props.value = value;
    },
  });
  /** @type {object | undefined} */
  let shown;
  const redraw = (value, question) => {
    try {
      keepingSelection(root, () => draw?.(value, question));
    } catch (error) {
      console.error(`Balcony.${name}`, error);
    }
  };
  const update = () => {
    const question = asked[id],
      answer = answers[id];
    if (question) {
      const isBehind = question.number > (answer?.question.number ?? -1);
      root.ariaBusy = `${isBehind && question.failure === null}`;
      tell(root, isBehind ? question.failure : null);
    }
    if (answer !== shown) redraw((shown = answer).value, answer.question);
  };
  on("answers", update);
  watch(["value", "options"], () => redraw(props.value));
  redraw(props.value);
  update();
}
