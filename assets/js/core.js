// Balcony's browser side: one global, a small module per picture, no framework.
// Words that a person typed reach the page through textContent alone, never as HTML.
// `bus` carries news between the views of this page, `tabs` between the browser tabs of one visitor; a message there is
// the visitor's token, and says that a run was started or another model is looked at. `visitor` is that token, once known.
window.Balcony = { views: {}, bus: new EventTarget(), tabs: new BroadcastChannel("balcony"), visitor: null };

(function (Balcony) {
  "use strict";

  /** Make an element: el("p", {class: "hint", "aria-live": "polite"}, "text", child, ...). */
  Balcony.el = function (tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  /** The same for a part of an SVG. */
  Balcony.svg = function (tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  /** A sentence for the person; role=alert makes screen readers say an error at once. */
  Balcony.note = function (text, isError) {
    const attributes = { class: isError ? "balcony-note is-error" : "balcony-note", dir: "auto" };
    if (isError) attributes.role = "alert";
    return Balcony.el("p", attributes, text);
  };

  Balcony.percent = function (share) {
    const value = share * 100;
    return value > 0 && value < 1 ? "<1%" : value > 99 && value < 100 ? ">99%" : `${Math.round(value)}%`;
  };

  /** A time that is left, in seconds. */
  Balcony.duration = function (seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 60) return `${Math.ceil(seconds)} s`;
    if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
    return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  };

  /** A horizontal bar for a share of 0 to 1. It repeats a number beside it, so readers skip it. */
  Balcony.bar = function (share) {
    const fill = Balcony.el("span", { class: "balcony-bar-fill" });
    fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
    return Balcony.el("span", { class: "balcony-bar", "aria-hidden": "true" }, fill);
  };

  /**
   * Make a group of buttons one stop of the Tab key; arrow keys, Home and End go through it. `columns`: how many
   * buttons a row has, for up and down; without it they go to the one before and the next.
   */
  Balcony.roam = function (group, columns) {
    const buttons = [...group.querySelectorAll("button")];
    const stop = (chosen) => buttons.forEach((button) => { button.tabIndex = button === chosen ? 0 : -1; });
    stop(buttons[0]);
    group.addEventListener("focusin", (event) => stop(event.target));
    group.addEventListener("keydown", (event) => {
      const at = buttons.indexOf(event.target);
      const forward = getComputedStyle(group).direction === "rtl" ? -1 : 1;
      const to = {
        ArrowRight: at + forward, ArrowLeft: at - forward, ArrowDown: at + (columns || 1), ArrowUp: at - (columns || 1),
        Home: 0, End: buttons.length - 1,
      }[event.key];
      if (at < 0 || !buttons[to]) return;
      event.preventDefault();
      buttons[to].focus();
    });
  };

  /** Keep a value of a visitor while this browser tab is open, so that a reload finds it; not where the browser forbids it. */
  Balcony.keep = function (name, visitor, value) {
    try { sessionStorage.setItem(`balcony-${name}`, JSON.stringify([visitor, value])); } catch (error) { console.warn(error); }
  };

  /** What was kept under that name for this visitor, else null. */
  Balcony.kept = function (name, visitor) {
    try {
      const [owner, value] = JSON.parse(sessionStorage.getItem(`balcony-${name}`)) || [];
      return owner === visitor ? value : null;
    } catch (error) {
      console.warn(error);
      return null;
    }
  };

  /** A function that runs `work` once at a time: of the calls that come meanwhile only the last is done. */
  Balcony.latest = function (work) {
    let waiting = null;
    let busy = false;
    return async function (...wanted) {
      waiting = wanted;
      if (busy) return;
      busy = true;
      try {
        while (waiting) {
          const now = waiting;
          waiting = null;
          await work(...now);
        }
      } finally {
        busy = false;
      }
    };
  };

  /**
   * Call back when the model the page looks at is another one and `root` is in the open tab: at once when the person
   * chose it, at most once a second while a model learns. rest: milliseconds that the choice must last first, for
   * what is slow and stands below the picture that the person is looking at.
   */
  Balcony.follow = function (root, callback, rest = 0) {
    let last = -Infinity;
    let timer = 0;
    Balcony.bus.addEventListener("model", ({ detail }) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        if (root.offsetParent === null) return;
        last = performance.now();
        callback();
      }, detail.chosen ? rest : Math.max(0, last + 1000 - performance.now()));
    });
  };

  /**
   * Connect a gr.HTML component to the view of that name. `events` are the names the view may trigger.
   * A view is `view(root, context) -> draw(value)`. A failing draw is logged and later updates still come:
   * an exception before `watch` would end them for good.
   *
   * `choose(update)` puts what the person chose into the value and triggers "input". The choices are numbered, and the
   * server sends the number back (`answer_to` in ui/views.py): until the answer to the last one is there the value
   * keeps what was chosen since and is `waiting`. An answer to an older choice that comes after it is dropped; one
   * without a number, such as an error, ends the waiting.
   */
  Balcony.mount = function (name, events, gradio) {
    const { element, props, trigger, watch, server } = gradio;
    let number = 0, chosen = null, answer = null;
    const wait = () => { props.value = { ...props.value, ...chosen, choice_number: number, waiting: true }; };
    const context = {
      trigger,
      server,
      options: props.options || {},
      setValue: (value) => { props.value = value; },
      choose: (update) => {
        number += 1;
        chosen = { ...chosen, ...update };
        wait();
        redraw();
        trigger("input");
      },
    };
    const root = element.querySelector(".balcony-view");
    const draw = Balcony.views[name](root, context);
    const redraw = () => {
      const { value } = props;
      if (value && value.choice_number < number) {
        if (chosen) wait();
        else props.value = answer;
      } else if (!value || !value.waiting) {
        number = (value && value.choice_number) || 0;
        chosen = null;
        answer = value;
      }
      root.ariaBusy = chosen !== null;
      try { draw(props.value); } catch (error) { console.error(`Balcony.${name}`, error); }
    };
    watch("value", redraw);
    redraw();
  };
})(window.Balcony);
