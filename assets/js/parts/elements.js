// Parts of a page. Text that a person typed becomes textContent, never HTML.

/** @typedef {Record<string, any>} Attributes a function is called at the event that its name ends with; null and undefined are left out */
/** @typedef {Node | string | null | undefined | false | 0 | "" | Child[]} Child nothing where it is empty; a list stands for its children */

/** What a person wrote, within a text of the page: `own` in ui/handlers.py marks it so, and it is never translated. */
const OWN = /\u2068([^\u2069]*)\u2069/;
/** Mark a text as a person's own. @param {string} text */
export const own = (text) => `\u2068${text.replaceAll(/[\u2068\u2069]/g, "")}\u2069`;
/**
 * A text of the page as nodes, with an element around each part that is a person's own.
 * @param {string} text @returns {(Node | string)[]}
 */
export const nodes = (text) => text.split(OWN).map((part, k) => (k % 2 ? el("bdi", { translate: "no" }, part) : part));

/** @param {Child[]} children @returns {(Node | string)[]} */
const flat = (children) =>
  /** @type {(Node | string)[]} */ (children.flat(9).filter(Boolean)).flatMap((child) =>
    typeof child === "string" ? nodes(child) : [child],
  );

/** @template {Element} Made @param {Made} element @param {(Attributes | Child)[]} content */
function complete(element, content) {
  const attributes = content[0]?.constructor === Object ? /** @type {Attributes} */ (content.shift()) : {};
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) element.setAttribute(name, `${value}`);
  }
  element.append(...flat(/** @type {Child[]} */ (content)));
  return element;
}

/**
 * Make an element: el("p.b-note", {"aria-live": "polite", onclick: press}, "text", child, ...), with or without attributes.
 * @template {string} Tag
 * @param {Tag} tag with its classes
 * @param {...(Attributes | Child)} content
 * @returns {Tag extends `${infer Name extends keyof HTMLElementTagNameMap}.${string}` ? HTMLElementTagNameMap[Name] : Tag extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[Tag] : HTMLElement}
 */
export function el(tag, ...content) {
  const [name, ...classes] = tag.split("."),
    element = document.createElement(name);
  if (name === "button") element.setAttribute("type", name); // it is "submit" where nothing else is said
  if (classes.length) element.className = classes.join(" ");
  return /** @type {any} */ (complete(element, content));
}

/**
 * The same for a part of an SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {...(Attributes | Child)} content
 */
export const svg = (tag, ...content) => complete(document.createElementNS("http://www.w3.org/2000/svg", tag), content);

/** Give an element other children. @param {Element} element @param {...Child} children */
export const fill = (element, ...children) => element.replaceChildren(...flat(children));

/**
 * @param {Child} content @param {(event: any) => any} press @param {Attributes} [attributes]
 */
export const button = (content, press, attributes = {}) =>
  el("button.b-small", { onclick: press, ...attributes }, content);

/**
 * A sentence for the person; role=alert makes screen readers announce an error at once.
 * @param {string} text @param {boolean} [isError]
 */
export const note = (text, isError) =>
  el(isError ? "p.b-note.is-error" : "p.b-note", { dir: "auto", role: isError ? "alert" : null }, text);

/** An answer with nothing to show: why, if it says so. @param {Element} root @param {{error?: string} | null} answer */
export const showError = (root, answer) => fill(root, answer?.error && note(answer.error, true));

/** @param {string[]} texts */
export const notes = (texts) => texts.map((text) => note(text));

/** What can only be pressed, in a line; pictures leave it out. @param {...Child} content */
export const tools = (...content) => el("div.b-tools", { "data-no-picture": "" }, content);

/** A name above a value, in a dl. @param {[name: string, value: Child]} pair */
export const fact = ([name, value]) => el("div", el("dt", name), el("dd", value));

/** A dot in a colour, a dotted one for dotted curves. @param {string} colour @param {boolean} [isDotted] */
export function dot(colour, isDotted) {
  const made = el(isDotted ? "span.b-dot.is-dotted" : "span.b-dot", { "aria-hidden": "true" });
  made.style.setProperty("--dot", colour);
  return made;
}

/**
 * A list of choices. @param {string} name @param {[value: string | number, text: string][]} pairs
 * @param {(value: string) => void} choose
 */
export const select = (name, pairs, choose) =>
  options(el("select", { "aria-label": name, onchange: (event) => choose(event.target.value) }), pairs);

/**
 * Fill a list of choices, unless it has them, and choose one of them.
 * @param {HTMLSelectElement} list @param {[value: string | number, text: string][]} pairs @param {string | number} [chosen] if it is there
 */
export function options(list, pairs, chosen = list.value) {
  const listed = JSON.stringify(pairs);
  const items = () => pairs.map(([value, text]) => el("option", { value }, text));
  if (list.dataset.listed !== listed) fill(list, items());
  list.dataset.listed = listed;
  if (pairs.some(([value]) => `${value}` === `${chosen}`)) list.value = `${chosen}`;
  return list;
}

/** The choices 1 to `count`, with values from 0. @param {number} count @returns {[number, string][]} */
export const numbered = (count) => Array.from({ length: count }, (_, k) => [k, `${k + 1}`]);

/** A box to tick. @param {string} name @param {(isTicked: boolean) => void} change @param {Attributes} [attributes] */
export function toggle(name, change, attributes = {}) {
  const onchange = (/** @type {any} */ event) => change(event.target.checked);
  return el("label.b-toggle", el("input", { type: "checkbox", onchange, ...attributes }), name);
}

/**
 * A table. A row is a list of cells, whose first one is its name, or a `tr`. Cells from column `numbers` on are numbers.
 * @param {Child[]} head @param {(Child[] | HTMLTableRowElement)[]} rows
 * @param {Attributes & {numbers?: number, caption?: Child}} [attributes]
 */
export function table(head, rows, { numbers = 1, caption, ...attributes } = {}) {
  const names = head.map((name, k) =>
    name ? el(k < numbers ? "th" : "th.b-number", { scope: "col" }, name) : el("td"),
  );
  const lines = rows.map((cells) => (Array.isArray(cells) ? row(cells, {}, numbers) : cells)),
    top = head.length > 0 && el("thead", el("tr", names));
  return el("table.b-table", attributes, caption, top, el("tbody", lines));
}

/** A row of a table; what is no cell becomes one. @param {Child[]} cells @param {Attributes} [attributes] @param {number} [numbers] */
export function row(cells, attributes = {}, numbers = 1) {
  const made = cells.map((cell, k) => {
    if (cell instanceof HTMLTableCellElement) return cell;
    return k ? el(k < numbers ? "td" : "td.b-number", cell) : el("th", { scope: "row" }, cell);
  });
  return el("tr", attributes, made);
}

/** What may be wider than the page. @param {string} name @param {...Child} content */
export const scrolling = (name, ...content) =>
  el("div.b-scroll", { tabindex: 0, role: "region", "aria-label": name }, content);

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
  const inner = el("span.b-bar-fill");
  inner.style.setProperty("--bar", `var(--b-${objective})`);
  inner.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return el("span.b-bar", { "aria-hidden": "true" }, inner);
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

/** The function that draws the values of a component. @param {{draw: (value: any) => void}} view */
export const draws = (view) => (/** @type {any} */ value) => view.draw(value);

/** How far something has come. @param {string} name */
export function progress(name) {
  const inner = el("span.b-bar-fill");
  const ends = { "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 0 };
  const element = el("div.b-bar.b-progress", { role: "progressbar", "aria-label": name, ...ends }, inner);
  return {
    element,
    /** @param {number} fraction 0 to 1 */
    show(fraction) {
      inner.style.width = `${100 * fraction}%`;
      element.ariaValueNow = `${Math.round(100 * fraction)}`;
    },
  };
}

const EDGE = 12; // pixels between what a button opens and the end of the window

/**
 * A button and what it opens below it. Escape, a press outside and a press of a button inside close that.
 * @param {Child} name @param {Attributes} attributes of the button @param {...Child} content
 */
export function popover(name, attributes, ...content) {
  const opener = el("button.b-small", attributes, name);
  const panel = el("div.b-popover", { popover: "", onbeforetoggle: place, ontoggle: place }, content);
  panel.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest("button")) panel.hidePopover();
  });
  function place() {
    const { left, bottom } = opener.getBoundingClientRect();
    const most = document.documentElement.clientWidth - panel.offsetWidth - EDGE;
    panel.style.left = `${Math.max(EDGE, Math.min(left, most))}px`;
    panel.style.top = `${bottom + 4}px`;
  }
  opener.popoverTargetElement = panel;
  return el("div", opener, panel);
}

/**
 * Copy a text; where the browser forbids it (it allows it only over https or on this machine), select the element that shows it.
 * @param {string} text @param {Node} [shown] @returns {Promise<boolean>} whether it is copied
 */
export async function copy(text, shown) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (shown) getSelection()?.selectAllChildren(shown);
    return false;
  }
}

/** Draw a part of the page again; the keyboard's focus stays at the control with the same `id` or `data-key`, or else the same place. @param {HTMLElement} part @param {() => void} draw */
export function keepingFocus(part, draw) {
  const controls = () =>
    /** @type {HTMLElement[]} */ ([...part.querySelectorAll("button, input, select, textarea, [tabindex]")]);
  const keyOf = (/** @type {HTMLElement | undefined} */ control) => control?.id || control?.dataset.key;
  const before = controls(),
    at = before.findIndex((control) => control === document.activeElement),
    key = keyOf(before[at]);
  draw();
  if (at < 0 || before[at].isConnected) return;
  const after = controls();
  (key ? after.find((control) => keyOf(control) === key) : after[at])?.focus();
}
