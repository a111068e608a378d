// Parts of a page. Text that a person typed becomes textContent, never HTML.

/** @typedef {Record<string, string | number | boolean | null | undefined>} Attributes */

/** What a person wrote, within a text of the page: `own` in ui/handlers.py marks it so, and it is never translated. */
const OWN = /\u2068([^\u2069]*)\u2069/;
/** Mark a text as a person's own. @param {string} text */
export const own = (text) => `\u2068${text.replaceAll(/[\u2068\u2069]/g, "")}\u2069`;
/**
 * A text of the page as nodes, with an element around each part that is a person's own.
 * @param {string} text @returns {(Node | string)[]}
 */
export const nodes = (text) => text.split(OWN).map((part, k) => (k % 2 ? el("bdi", { translate: "no" }, part) : part));

/**
 * Make an element: el("p", {class: "hint", "aria-live": "polite"}, "text", child, ...).
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} attributes one that is null or undefined is left out
 * @param {...(Node | string)} children
 */
export function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  if (tag === "button") element.setAttribute("type", tag); // it is "submit" where nothing else is said
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, `${value}`);
  }
  element.append(...children.flatMap((child) => (typeof child === "string" ? nodes(child) : [child])));
  return element;
}

/**
 * The same for a part of an SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Attributes} attributes
 * @param {...(Node | string)} children
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, `${value}`);
  element.append(...children);
  return element;
}

/**
 * A sentence for the person; role=alert makes screen readers announce an error at once.
 * @param {string} text @param {boolean} [isError]
 */
export function note(text, isError) {
  return el("p", { class: isError ? "b-note is-error" : "b-note", dir: "auto", role: isError ? "alert" : null }, text);
}

/**
 * Disable a button for a reason, which is its title then; without one, enable it.
 * @param {HTMLButtonElement} button @param {string | false} why @param {string} [title] of the enabled button
 */
export function disable(button, why, title = "") {
  button.disabled = Boolean(why);
  button.title = why || title;
}

const RIGHT_TO_LEFT =
  /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

/**
 * The direction of a line of words, by its first letter. dir="auto" looks for that letter, but not in parts with a
 * direction of their own, such as words that each have one.
 * @param {string[]} words special tokens such as [CLS] have no letters
 */
export function direction(words) {
  const letter = words
    .filter((word) => !/^\[[A-Z]+\]$/.test(word))
    .join(" ")
    .match(/\p{L}/u);
  return letter && RIGHT_TO_LEFT.test(letter[0]) ? "rtl" : "ltr";
}

/**
 * A horizontal bar for a fraction of 0 to 1. It repeats a number beside it, so screen readers skip it.
 * @param {number} fraction @param {"mlm" | "nsp"} objective whose colour it has
 */
export function bar(fraction, objective) {
  const fill = el("span", { class: "b-bar-fill" });
  fill.style.setProperty("--bar", `var(--b-${objective})`);
  fill.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return el("span", { class: "b-bar", "aria-hidden": "true" }, fill);
}

/**
 * Make a group of buttons one stop of the Tab key; arrow keys, Home and End move inside it.
 * @param {HTMLElement} group
 * @param {number} [columns] buttons of a row, for up and down
 */
export function roam(group, columns = 1) {
  const buttons = [...group.querySelectorAll("button")];
  /** @param {EventTarget | null} chosen */
  const stop = (chosen) =>
    buttons.forEach((button) => {
      button.tabIndex = button === chosen ? 0 : -1;
    });
  stop(buttons[0]);
  group.addEventListener("focusin", (event) => stop(event.target));
  group.addEventListener("keydown", (event) => {
    const index = buttons.findIndex((button) => button === event.target);
    const forward = getComputedStyle(group).direction === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: index + forward,
      ArrowLeft: index - forward,
      ArrowDown: index + columns,
      ArrowUp: index - columns,
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    if (index < 0 || to === undefined || !buttons[to]) return;
    event.preventDefault();
    buttons[to].focus();
  });
}
