// A part of the page as a picture: light in either theme, under a title, without what can only be pressed. It is a copy within
// an SVG, which takes the style sheets along.

import { repaint } from "../colours.js";
import { translateNow } from "../language/translator.js";
import { el, svg } from "./elements.js";

const MARGIN = 12;
const NARROWEST = 360; // pixels of a title's lines, at least
// Without transitions: colours would begin to change slowly.
const ON_PAGE = `* { transition: none !important } [data-no-picture] { display: none !important }
  [data-whole] { max-height: none !important }`;
const ON_PAPER = `[data-around] { display: contents !important } [data-whole] { overflow: visible !important }
  .b-picture-title { position: static !important } .b-term { text-decoration: none !important }
  input, select, textarea { visibility: hidden }`;
// eslint-disable-next-line no-control-regex -- they are what XML cannot hold
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

/** The text of rules of a style sheet that hold now: a picture has not the width of the window. @param {CSSRuleList} rules @returns {string} */
const css = (rules) =>
  [...rules]
    .map((rule) => {
      if (!(rule instanceof CSSMediaRule)) return rule.cssText;
      return matchMedia(rule.media.mediaText).matches ? css(rule.cssRules) : "";
    })
    .join("\n");

/**
 * What `work` returns while the page is light, the element is so large that nothing in it scrolls, and shows nothing that can
 * only be pressed. Nothing of it reaches the screen: the browser paints after the script.
 * @template Result
 * @param {HTMLElement} element @param {() => Result} work
 */
function asPicture(element, work) {
  const dark = [...document.querySelectorAll(".dark")],
    { minWidth } = element.style;
  const scrolling = [element, ...element.querySelectorAll("*")].filter((each) =>
    /auto|scroll/.test(getComputedStyle(each).overflow),
  );
  const places = scrolling.map(({ scrollLeft, scrollTop }) => [scrollLeft, scrollTop]);
  const rules = el("style", ON_PAGE);
  document.head.append(rules);
  for (const each of scrolling) each.toggleAttribute("data-whole", true);
  for (const each of dark) each.classList.remove("dark");
  // What scrolls may have a share of the width alone, so that several steps are needed.
  for (let tries = 0; tries < 10; tries += 1) {
    const hidden = Math.max(0, ...scrolling.map((each) => each.scrollWidth - each.clientWidth));
    if (!hidden) break;
    element.style.minWidth = `${element.offsetWidth + 2 * hidden}px`;
  }
  repaint();
  translateNow(); // what was drawn anew
  try {
    return work();
  } finally {
    rules.remove();
    element.style.minWidth = minWidth;
    for (const each of dark) each.classList.add("dark");
    repaint();
    scrolling.forEach((each, index) => {
      each.removeAttribute("data-whole");
      [each.scrollLeft, each.scrollTop] = places[index];
    });
  }
}

const paper = document.implementation.createHTMLDocument(); // in which nothing comes to life

/** A copy of an element with what its canvases show. @param {HTMLElement} element @param {number} width */
function copied(element, width) {
  const copy = paper.importNode(element, true),
    canvases = copy.querySelectorAll("canvas");
  element.querySelectorAll("canvas").forEach((canvas, index) => {
    canvases[index].style.background = `url(${canvas.toDataURL()}) 0 / 100% 100%`;
  });
  for (const part of copy.querySelectorAll("[data-no-picture]")) part.remove();
  // Plotly names its clip paths with the address of the page, which another program can't open.
  for (const part of copy.querySelectorAll("[clip-path]"))
    part.setAttribute(
      "clip-path",
      `${part.getAttribute("clip-path")}`.replace(/url\(['"]?[^#]*#([^'")]*).*/, "url(#$1)"),
    );
  Object.assign(copy.style, { width: `${width}px`, minWidth: "0", maxWidth: "none", margin: "0" });
  return copy;
}

/** Content within the elements that are around an element of the page, which rules of style sheets name. @param {HTMLElement} element @param {Node[]} content */
function within(element, content) {
  let inner = content;
  for (let around = element.parentElement; around; around = around.parentElement) {
    const copy = paper.importNode(around);
    copy.toggleAttribute("data-around", true);
    copy.append(...inner);
    inner = [copy];
  }
  return inner;
}

/** @param {HTMLElement} element @param {string[]} title */
function pictureNow(element, title) {
  const { offsetWidth } = element,
    { top } = element.getBoundingClientRect(),
    bottoms = [...element.querySelectorAll("*")].map((part) => part.getBoundingClientRect().bottom),
    lines = el("div.b-picture-title", ...title.map((line) => el("p", { dir: "auto" }, line)));
  const width = Math.max(NARROWEST, offsetWidth);
  lines.style.width = `${width}px`;
  element.closest(".gradio-container")?.append(lines);
  translateNow();
  const height = Math.ceil(lines.offsetHeight + Math.max(...bottoms) - top), // without room that nothing fills
    size = { width: width + 2 * MARGIN, height: height + 2 * MARGIN };
  lines.remove();
  const rules = [...document.styleSheets].map((sheet) => css(sheet.cssRules)),
    { fontSize } = getComputedStyle(document.documentElement);
  const root = svg(
    "svg",
    { ...size, style: `font-size: ${fontSize}` },
    svg("style", [...rules, ON_PAPER].join("\n")),
    svg("rect", { ...size, fill: "#ffffff" }),
    svg(
      "foreignObject",
      { x: MARGIN, y: MARGIN, width, height },
      within(element, [lines, copied(element, offsetWidth)]),
    ),
  );
  return { text: new XMLSerializer().serializeToString(root).replace(NO_XML, ""), ...size };
}

/**
 * An element as SVG text: letters stay letters, canvases become pictures inside it.
 * @param {HTMLElement} element @param {string[]} title lines above it
 */
export const picture = (element, title) => asPicture(element, () => pictureNow(element, title));
