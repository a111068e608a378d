// Parts of a page. Text that a person typed becomes textContent, never HTML.

/** @typedef {Record<string, any>} Attributes a function is called at the event that its name ends with; null and undefined are left out */
/** @typedef {Node | string | null | undefined | false | 0 | "" | Child[]} Child nothing where it is empty; a list stands for its children */

/** What a person wrote, within a text of the page: `own` in balcony/handlers.py marks it so, and it is never translated. */
const OWN = /\u2068([^\u2069]*)\u2069/;
/** Mark a text as a person's own. @param {string} text */
export const own = (text) => `\u2068${text.replaceAll(/[\u2068\u2069]/g, "")}\u2069`;
/**
 * A text of the page as nodes, with an element around each part that is a person's own.
 * @param {string} text @returns {(Node | string)[]}
 */
const nodes = (text) => text.split(OWN).map((part, k) => (k % 2 ? el("bdi", { translate: "no" }, part) : part));

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

/** A term in a text of the page: [[loss]], or [[loss|losses]] where other words stand for it; assets/terms.json explains it. */
const TERM = /\[\[(.+?)(?:\|(.+?))?\]\](?!\])/g;
/** The id of what explains a term. @param {string} name */
export const termId = (name) => `term-${name.toLowerCase().replaceAll(" ", "-")}`;

/** A text with its terms. In another language the translator changes its attribute. */
class TextWithTerms extends HTMLElement {
  static observedAttributes = ["text"];

  /** @param {string} _name @param {string | null} _before @param {string} text */
  attributeChangedCallback(_name, _before, text) {
    const [before, ...rest] = text.split(TERM); // name and words of a term, and what follows it; and so on
    fill(
      this,
      before,
      rest.map((part, k) => {
        if (k % 3) return k % 3 === 2 && part;
        return el("dfn.b-term", { tabindex: 0, "aria-describedby": termId(part) }, rest[k + 1] ?? part);
      }),
    );
  }
}
if (!customElements.get("b-text")) customElements.define("b-text", TextWithTerms); // a module may have two addresses

/** A text without such marks. @param {string} text */
export const plain = (text) => text.replace(TERM, (_, name, words) => words ?? name);

/** A text of the page in which terms are marked. @param {string} text */
export const withTerms = (text) => el("b-text", { text });

/** Give an element other children. @param {Element} element @param {...Child} children */
export const fill = (element, ...children) =>
  keepingSelection(element, () => element.replaceChildren(...flat(children)));

/** A place in the text of an element, after its letter number `letter` or before it. @param {Element} element @param {number} letter @param {0 | 1} after */
function placeIn(element, letter, after) {
  const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let left = letter, text = texts.nextNode(); text; text = texts.nextNode()) {
    const { length } = /** @type {Text} */ (text);
    if (left < length) return /** @type {const} */ ([text, left + after]);
    left -= length;
  }
  return /** @type {const} */ ([element, 0]);
}

// Known beforehand: a browser that is asked for its selection while views are drawn lays out the page for each of them.
let isTextSelected = false;
document.addEventListener("selectionchange", () => (isTextSelected = getSelection()?.isCollapsed === false));

/**
 * Draw a part of the page again; what a person has selected in it stays selected, where its text is there again.
 * @template Result
 * @param {Element} part @param {() => Result} draw
 */
export function keepingSelection(part, draw) {
  const selection = isTextSelected ? getSelection() : null,
    range = selection?.rangeCount ? selection.getRangeAt(0) : null;
  if (!selection || !range || !part.contains(range.commonAncestorContainer)) return draw();
  const text = `${range}`,
    before = document.createRange();
  before.setStart(part, 0);
  before.setEnd(range.startContainer, range.startOffset);
  const start = `${before}`.length,
    result = draw(),
    now = part.textContent ?? "",
    at = now.startsWith(text, start) ? start : now.indexOf(text);
  if (text && at >= 0 && `${range}` !== text)
    selection.setBaseAndExtent(...placeIn(part, at, 0), ...placeIn(part, at + text.length - 1, 1));
  return result;
}

/** A formula in the names of the code, which no language translates. @param {string} text */
export const code = (text) => el("code", { translate: "no" }, text);

/** @param {Child} content @param {(event: any) => any} press @param {Attributes} [attributes] */
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

/**
 * What is said of an answer, with its mark; without one where there is neither right nor wrong.
 * @param {"p" | "b" | "span" | "small"} tag @param {boolean | null} isRight @param {...Child} content
 */
export const judged = (tag, isRight, ...content) =>
  el(isRight === false ? `${tag}.b-wrong` : tag, isRight !== null && (isRight ? "✓ " : "✗ "), content);

/** A name above a value, in a dl. @param {[name: Child, value: Child]} pair */
export const fact = ([name, value]) => el("div", el("dt", name), el("dd", value));

/** A dot in a colour, a dotted one for dotted curves. @param {string} colour @param {boolean} [isDotted] */
export function dot(colour, isDotted) {
  const made = el(isDotted ? "span.b-dot.is-dotted" : "span.b-dot", { "aria-hidden": "true" });
  made.style.setProperty("--dot", colour);
  return made;
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
  const inner = el("span.b-bar-fill");
  inner.style.setProperty("--bar", `var(--b-${objective})`);
  inner.style.width = `${Math.max(0, Math.min(1, fraction)) * 100}%`;
  return el("span.b-bar", { "aria-hidden": "true" }, inner);
}

/**
 * Make a group of buttons one stop of the Tab key; arrow keys, Home and End move inside it.
 * @template {HTMLElement} Group @param {Group} group
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
  return group;
}

const EDGE = 8; // pixels between what is put below a part of the page and the end of the window

/**
 * Put what explains a part of the page below it, or above it where the window ends.
 * @param {HTMLElement} tip @param {DOMRect} part @param {{left: number, top: number}} [origin] of the tip's place
 */
export function putBelow(tip, { left, top, bottom }, origin = { left: 0, top: 0 }) {
  const { width, height } = tip.getBoundingClientRect(),
    most = document.documentElement.clientWidth - width - EDGE;
  tip.style.left = `${Math.max(EDGE, Math.min(left, most)) - origin.left}px`;
  const isBelow = bottom + height + 12 <= innerHeight;
  tip.style.top = `${(isBelow ? bottom + 6 : Math.max(EDGE, top - height - 6)) - origin.top}px`;
}

const LEAST_SEEN = 160; // pixels of a part that are in the window

/** Scroll to a part of the page that stands below the window, as on a phone. @param {Element | null} part */
export function bringIn(part) {
  const top = part?.getBoundingClientRect().top ?? 0;
  if (top > innerHeight - LEAST_SEEN) scrollBy({ top: top - innerHeight / 2 });
}

/** A function that says whether one of these parts of the page was pressed since it was last called. @param {string} selector */
export function presses(selector) {
  let isPressed = false;
  document.addEventListener("click", ({ target }) => {
    isPressed ||= target instanceof Element && target.closest(selector) !== null;
  });
  return () => {
    const wasPressed = isPressed;
    isPressed = false;
    return wasPressed;
  };
}

/** A function that says whether it is called with other values than the time before. */
export function changes() {
  let before = "";
  return (/** @type {any[]} */ ...values) => before !== (before = JSON.stringify(values));
}

/** The function that draws the values of a component. @param {{draw: (value: any) => void}} view */
export const draws = (view) => (/** @type {any} */ value) => view.draw(value);

/** A length that grows with the browser's font size. @param {number} pixels at its usual size */
export const sized = (pixels) => (pixels * Number.parseFloat(getComputedStyle(document.documentElement).fontSize)) / 16;
