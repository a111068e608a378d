// What views are put together from: tables, lists of choices, boxes to tick, what a button opens, progress, and the keeper of
// the keyboard's focus.

import { button, el, fill, putBelow } from "./parts/elements.js";

/** @import { Attributes, Child } from "./parts/elements.js" */

const MIDDLE = /(?<=\u2068)([^\u2069]{16})[^\u2069]{2,}([^\u2069]{15})(?=\u2069)/gu; // of a long name that a person gave

/**
 * A list of choices. @param {string} name @param {[value: string | number, text: string][]} pairs
 * @param {(value: string) => void} choose @param {Attributes} [attributes]
 */
export const select = (name, pairs, choose, attributes) =>
  options(el("select", { "aria-label": name, onchange: ({ target }) => choose(target.value), ...attributes }), pairs);

/**
 * Fill a list of choices, unless it has them, and choose one of them.
 * @param {HTMLSelectElement} list @param {[value: string | number, text: string][]} pairs @param {string | number} [chosen] if it is there
 */
export function options(list, pairs, chosen = list.value) {
  const listed = JSON.stringify(pairs);
  const items = () => pairs.map(([value, text]) => el("option", { value }, text.replace(MIDDLE, "$1…$2")));
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
  const names = head.map((name, k) => {
    if (name instanceof HTMLTableCellElement) return name;
    return name ? el(k < numbers ? "th" : "th.b-number", { scope: "col" }, name) : el("td");
  });
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

/** How far something has come, as a fraction. @param {string} name */
export const progress = (name) => el("progress.b-bar.b-progress", { max: 1, value: 0, "aria-label": name });

/** What opens below a part of the page, or above it where the window ends. @param {HTMLElement} part @param {...Child} content */
export function panelBelow(part, ...content) {
  const place = () => putBelow(panel, part.getBoundingClientRect()),
    panel = el("div.b-popover", { popover: "", onbeforetoggle: place, ontoggle: place }, content);
  return panel;
}

/**
 * A button and what it opens. Escape, a press outside or of a button inside close that.
 * @param {Child} name @param {Attributes} attributes of the button @param {...Child} content
 */
export function popover(name, attributes, ...content) {
  const opener = el("button.b-small", attributes, name),
    panel = panelBelow(opener, content);
  panel.addEventListener("click", ({ target }) => {
    if (target instanceof Element && target.closest("button")) panel.hidePopover();
  });
  opener.popoverTargetElement = panel;
  return el("div", opener, panel);
}

/** A button that asks before it acts. @param {Child} name @param {Attributes} attributes of the button, with an id @param {Child} ask @param {() => void} press */
export function asksFirst(name, attributes, ask, press) {
  const sure = button(name, press, { id: `${attributes.id}-sure` }),
    cancel = button("Cancel", () => {});
  return popover(name, attributes, el("p", ask), el("div.b-tools", sure, cancel));
}

/**
 * Copy a text. Over http a browser copies only what is selected, and where it forbids that too, the text stays selected.
 * @param {string} text @param {HTMLElement} shown the element or the field with it @param {() => void} [show] makes that visible
 * @returns {Promise<boolean>} whether it is copied
 */
export async function copy(text, shown, show) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    show?.();
    if (shown instanceof HTMLInputElement) shown.select();
    else getSelection()?.selectAllChildren(shown);
    return document.execCommand("copy");
  }
}

/** Draw a part again; the focus stays at the control with the same `id` or `data-key`, else at the same place. It waits for an open question. @param {HTMLElement} part @param {() => void} draw */
export function keepingFocus(part, draw) {
  const open = part.querySelector(":popover-open");
  if (open) return open.addEventListener("toggle", () => keepingFocus(part, draw), { once: true });
  const controls = () =>
    /** @type {HTMLElement[]} */ ([...part.querySelectorAll("button, input, select, textarea, [tabindex]")]);
  const keyOf = (/** @type {HTMLElement | undefined} */ control) => control?.id || control?.dataset.key;
  const before = controls(),
    at = before.findIndex((control) => control === document.activeElement),
    key = keyOf(before[at]);
  draw();
  if (at < 0 || before[at].isConnected) return;
  controls()
    .find((control, k) => (key ? keyOf(control) === key : k === at))
    ?.focus({ preventScroll: true });
}
