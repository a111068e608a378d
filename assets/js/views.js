// The browser's half of ui/views.py.

/**
 * Connect a gr.HTML component to a view. A failing draw is logged and later updates still come: an exception before
 * `watch` would end them for good.
 *
 * `choose(update)` puts what the person chose into the value and triggers "input". The choices are numbered, and the
 * server sends the number back (`answer_to` in ui/views.py). Until the last choice is answered, the value keeps the
 * choices since the last answer and is `waiting`. A late answer to an older choice is dropped; one without a number,
 * such as an error, ends the waiting.
 * @param {string} name @param {View} view @param {GradioComponent} component
 */
export function mount(name, view, component) {
  const { element, props, trigger, watch, server } = component;
  let number = 0;
  /** @type {object | null} */
  let chosen = null;
  /** @type {any} */
  let answer = null;
  const wait = () => { props.value = { ...props.value, ...chosen, choice_number: number, waiting: true }; };
  /** @type {ViewContext} */
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
  const root = /** @type {HTMLElement} */ (element.querySelector(".balcony-view"));
  const draw = view(root, context);
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
    root.ariaBusy = `${chosen !== null}`;
    try { draw(props.value); } catch (error) { console.error(`Balcony.${name}`, error); }
  };
  watch("value", redraw);
  redraw();
}
