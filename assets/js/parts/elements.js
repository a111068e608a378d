// Parts of a page. Text that a person typed becomes textContent, never HTML.

/** Make an element: el("p", {class: "hint", "aria-live": "polite"}, "text", child, ...). */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** The same for a part of an SVG. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** A sentence for the person; role=alert makes screen readers say an error at once. */
export function note(text, isError) {
  const attributes = { class: isError ? "balcony-note is-error" : "balcony-note", dir: "auto" };
  if (isError) attributes.role = "alert";
  return el("p", attributes, text);
}

/** A horizontal bar for a share of 0 to 1. It repeats a number beside it, so readers skip it. */
export function bar(share) {
  const fill = el("span", { class: "balcony-bar-fill" });
  fill.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: "balcony-bar", "aria-hidden": "true" }, fill);
}

/**
 * Make a group of buttons one stop of the Tab key; arrow keys, Home and End go through it. `columns`: how many
 * buttons a row has, for up and down; without it they go to the one before and the next.
 */
export function roam(group, columns) {
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
}
