// In the page of test_refused_presses.py: its buttons, a press on one of them, and where the answer stands.

const BUTTONS = "button:not([role=tab]), summary, [role=button]";
const TEXTS = "h2, h3, dt, dd, th, caption, p";
const isShown = (each) => each.checkVisibility({ visibilityProperty: true }) && each.getClientRects().length > 0;
const isInWindow = (each) => {
  const { top, bottom, width } = each.getBoundingClientRect();
  return width > 0 && bottom > 0 && top < innerHeight;
};
const openTab = () => [...document.querySelectorAll("#tabs > [role=tabpanel]")].find(isShown);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

class Presses {
  buttons = new Map(); // by their keys
  pressed = null;
  before = new Map(); // texts as they were before the press
  tab = null; // the open one before the press
  changed = []; // what has changed since
  asking = 0; // questions under way
  lastAsked = 0;
  watcher = new MutationObserver((records) => this.changed.push(...records));

  constructor() {
    const ask = window.fetch;
    window.fetch = (...request) => {
      if (request[1]?.method !== "POST") return ask(...request);
      this.asking += 1;
      this.lastAsked = performance.now();
      return ask(...request).finally(() => (this.asking -= 1));
    };
  }

  /** Open what is folded. */
  unfold() {
    for (const item of document.querySelectorAll("details:not(.b-save)")) item.open = true;
    for (const item of document.querySelectorAll("button.label-wrap:not(.open)")) item.click();
  }

  /** The buttons that can be seen: a key, which is the id or the part of the page and the class; whether it is disabled;
   * why, by its title or description. */
  list() {
    this.buttons.clear();
    for (const item of [...document.querySelectorAll(BUTTONS)].filter(isShown)) {
      const key = item.id || `${item.parentElement.closest("[id]")?.id ?? ""} ${item.className}`;
      if (!this.buttons.has(key)) this.buttons.set(key, item);
    }
    const described = (item) => document.getElementById(item.getAttribute("aria-describedby"))?.textContent;
    return [...this.buttons].map(([key, item]) => [key, item.disabled === true, item.title || described(item) || ""]);
  }

  /** Press a button; false where it is gone. */
  press(key) {
    for (const close of document.querySelectorAll(".b-message [aria-label]")) close.click();
    document.querySelector("dialog[open]")?.close();
    const item = this.buttons.get(key);
    if (!item.isConnected) return false;
    item.scrollIntoView({ block: "center" });
    item.focus();
    this.watcher.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    this.watcher.takeRecords();
    this.pressed = item;
    this.tab = openTab();
    this.changed = [];
    this.before = new Map([...document.querySelectorAll(TEXTS)].map((each) => [each, each.textContent]));
    item.click();
    return true;
  }

  /** Until all questions are answered, no view waits for its turn, and nothing was asked for some milliseconds. */
  async settled(quiet, most) {
    const began = performance.now();
    for (let now = began; now - began <= most; now = performance.now()) {
      await pause(quiet / 2);
      const waits = this.asking || document.querySelector(".b-view[aria-busy=true]");
      if (!waits && now - Math.max(began, this.lastAsked) > quiet) return true;
    }
    return false;
  }

  /** The texts that the press has changed or, with another tab, opened. The bar at the top shows everything that happens. */
  texts() {
    const tab = openTab(),
      opened = tab === this.tab ? [] : [...tab.querySelectorAll(TEXTS)].filter(isShown);
    const isText = (each) => each?.isConnected && isShown(each) && each.textContent.trim();
    const texts = this.changed
      .filter(({ type }) => type !== "attributes")
      .flatMap(({ target, addedNodes }) => (addedNodes.length ? [...addedNodes] : [target]))
      .map((node) => (node instanceof Element ? node : node.parentElement))
      .filter((each) => isText(each) && !each.closest("#header, .b-unseen, .visually-hidden"))
      .map((each) => each.closest(TEXTS) ?? each)
      .filter((each) => this.before.get(each) !== each.textContent);
    return [...texts, ...opened];
  }

  /** How much the press has changed, and which texts a person would have to scroll to, where none is in the window. */
  answer() {
    const { pressed } = this,
      { activeElement: active } = document,
      texts = this.texts();
    const isElsewhere = // a field with the focus, a window of the browser, something over the page
      (active !== document.body && active !== pressed && isInWindow(active)) ||
      pressed.querySelector("[type=file]") ||
      document.querySelector(":popover-open, dialog[open]");
    const isNear =
      isElsewhere ||
      pressed.closest("#header, .b-save-kinds") ||
      texts.some((each) => pressed.contains(each) || isInWindow(each));
    // The progress of an earlier press may still be counting.
    const outside = isNear ? [] : texts.filter((each) => !each.closest("[data-testid=status-tracker]"));
    return [this.changed.length, [...new Set(outside.map((each) => each.textContent.trim().slice(0, 60)))].slice(0, 3)];
  }

  /** Whether one of the sentences stands in the window, under nothing but what a press outside closes. */
  stands(sentences) {
    for (const open of document.querySelectorAll(":popover-open")) open.hidePopover();
    const has = (each) => sentences.some((text) => each.textContent.includes(text));
    return [...document.querySelectorAll(".gradio-container *")].some((each) => {
      if (!has(each) || [...each.children].some(has) || !each.checkVisibility()) return false;
      const { left, right, top, bottom } = each.getBoundingClientRect();
      if (right === left || top < 0 || left < 0 || bottom > innerHeight || right > innerWidth) return false;
      const above = document.elementFromPoint((left + right) / 2, (top + bottom) / 2);
      return each.contains(above) || above?.contains(each);
    });
  }
}

window.presses = new Presses();
