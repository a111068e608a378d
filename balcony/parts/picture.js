// A part of the page as SVG text, which is drawn as a picture: light in either theme, under a title, without what can only be pressed.

import { repaint } from "../colours.js";
import { translateNow } from "../language/translator.js";
import { el, svg } from "./elements.js";

const MARGIN = 12;
// The properties that a style sheet may set on a part of an SVG; the picture has no style sheet.
const SVG_STYLES =
  "fill fill-opacity stroke stroke-width stroke-opacity stroke-dasharray opacity font-family font-size font-weight " +
  "text-anchor dominant-baseline direction unicode-bidi";
// eslint-disable-next-line no-control-regex -- they are what XML cannot hold
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

/** @param {string} colour */
const isVisible = (colour) => colour && colour !== "transparent" && !/^rgba.*, 0\)$|\/ 0\)$/.test(colour);

/** The lines of a text node as the page breaks it. @param {Text} node @returns {[text: string, extent: DOMRect][]} */
function linesOf(node) {
  const text = node.data.trim();
  if (!text) return [];
  const range = document.createRange();
  let start = node.data.indexOf(text);
  range.setStart(node, start);
  range.setEnd(node, start + text.length);
  const whole = range.getClientRects();
  if (whole.length === 1) return [[text, whole[0]]];
  /** @type {[string, DOMRect][]} */
  const lines = [];
  for (const letter of text) {
    range.setStart(node, start);
    range.setEnd(node, (start += letter.length));
    const extent = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (!extent.width) continue;
    if (last && Math.abs(last[1].top - extent.top) < extent.height / 2) {
      last[0] += letter;
      const left = Math.min(last[1].left, extent.left);
      last[1] = new DOMRect(left, last[1].top, Math.max(last[1].right, extent.right) - left, last[1].height);
    } else lines.push([letter, extent]);
  }
  return lines;
}

const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

/** The lines of a text as SVG. @param {Text} node @param {DOMRect} origin */
function letters(node, origin) {
  const { fontFamily, fontSize, fontWeight, direction, color, textDecorationLine, writingMode } = getComputedStyle(
    /** @type {Element} */ (node.parentElement),
  );
  pen.font = `${fontWeight} ${fontSize} ${fontFamily}`;
  const ascent = pen.measureText("x").fontBoundingBoxAscent,
    font = { "font-family": fontFamily, "font-size": fontSize, "font-weight": fontWeight },
    look = { ...font, fill: color, direction, "xml:space": "preserve" };
  return linesOf(node).map(([text, extent]) => {
    const x = (direction === "rtl" ? extent.right : extent.left) - origin.left,
      y = extent.top - origin.top,
      isUpright = writingMode !== "horizontal-tb",
      turned = { transform: `translate(${extent.right - origin.left - ascent} ${y}) rotate(90)` };
    const line = svg("text", {
      ...(isUpright ? turned : { x, y: y + ascent }),
      ...look,
      "text-decoration": textDecorationLine === "line-through" ? textDecorationLine : null,
    });
    line.textContent = text.replace(/\s+/g, " ").trim().replace(NO_XML, "");
    return line;
  });
}

/** The place of an element in the picture. @param {DOMRect} extent @param {DOMRect} origin */
const placed = ({ x, y, width, height }, origin) => ({ x: x - origin.x, y: y - origin.y, width, height });

/** Background and border of an element. @param {CSSStyleDeclaration} style @param {DOMRect} extent @param {DOMRect} origin */
function box(style, extent, origin) {
  const lineWidth = parseFloat(style.borderTopWidth),
    hasTop = lineWidth && style.borderTopStyle !== "none" && isVisible(style.borderTopColor),
    hasBorder = hasTop && parseFloat(style.borderBottomWidth),
    inset = hasBorder ? lineWidth / 2 : 0,
    { x, y, width, height } = placed(extent, origin),
    line = { stroke: style.borderTopColor, "stroke-width": lineWidth };
  const top = hasTop && !hasBorder && svg("path", { d: `M${x} ${y}h${width}`, ...line });
  const area = svg("rect", {
    x: x + inset,
    y: y + inset,
    width: Math.max(0, width - 2 * inset),
    height: Math.max(0, height - 2 * inset),
    rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, height / 2),
    fill: isVisible(style.backgroundColor) ? style.backgroundColor : "none",
    ...(hasBorder ? line : {}),
    "stroke-dasharray": style.borderTopStyle === "dashed" ? "4 3" : null,
  });
  return [(isVisible(style.backgroundColor) || hasBorder) && area, top].filter((part) => part instanceof SVGElement);
}

/** A copy of an SVG with its styles. @param {SVGElement} original @param {DOMRect} extent @param {DOMRect} origin */
function drawing(original, extent, origin) {
  const copy = /** @type {SVGElement} */ (original.cloneNode(true));
  const sources = [original, ...original.querySelectorAll("*")];
  /** @type {NodeListOf<SVGElement>} */
  const copies = copy.querySelectorAll("*");
  [copy, ...copies].forEach((part, index) => {
    const style = getComputedStyle(sources[index]);
    for (const name of SVG_STYLES.split(" ")) part.style.setProperty(name, style.getPropertyValue(name));
    // Plotly names its clip paths with the address of the page, which another program can't open.
    const clip = part.getAttribute("clip-path");
    if (clip) part.setAttribute("clip-path", clip.replace(/url\(['"]?[^#]*#([^'")]*)['"]?\)/, "url(#$1)"));
  });
  for (const [name, value] of Object.entries({ ...placed(extent, origin), overflow: "visible" }))
    copy.setAttribute(name, `${value}`);
  return copy;
}

/** Everything that a node shows, as SVG. @param {Node} node @param {DOMRect} origin @returns {SVGElement[]} */
function parts(node, origin) {
  if (node instanceof Text) return letters(node, origin);
  if (!(node instanceof Element) || node.matches("input, select, textarea")) return [];
  const style = getComputedStyle(node);
  const extent = node.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || style.clipPath !== "none" || style.opacity === "0")
    return [];
  if (node instanceof SVGElement) return extent.width ? [drawing(node, extent, origin)] : [];
  if (node instanceof HTMLCanvasElement) {
    const look = { href: node.toDataURL(), "image-rendering": style.imageRendering };
    return [svg("image", { ...placed(extent, origin), ...look })];
  }
  const drawn = [...box(style, extent, origin), ...[...node.childNodes].flatMap((child) => parts(child, origin))];
  if (style.opacity === "1" || !drawn.length) return drawn;
  return [svg("g", { opacity: style.opacity }, drawn)];
}

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
  // Without transitions: colours would begin to change slowly.
  const rules = el(
    "style",
    `* { transition: none !important } [data-no-picture] { display: none !important }
    [data-whole] { max-height: none !important }`,
  );
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

/** The size of a drawing, which it has only on the page. @param {SVGGElement} content */
function extentOf(content) {
  const root = svg("svg", { style: "position: absolute; visibility: hidden" }, content);
  document.body.append(root);
  const { x, y, width, height } = content.getBBox();
  root.remove();
  return { x, y, width, height };
}

/** @param {HTMLElement} element @param {string[]} title */
function pictureNow(element, title) {
  const content = svg("g", parts(element, element.getBoundingClientRect())),
    { x, y, width, height } = extentOf(content);
  const left = Math.max(0, x),
    right = Math.min(x + width, element.scrollWidth),
    bottom = Math.min(y + height, element.scrollHeight);
  const lines = el("div.b-picture-title", ...title.map((line) => el("p", { dir: "auto" }, line)));
  lines.style.width = `${Math.max(360, right - left)}px`;
  element.closest(".gradio-container")?.append(lines);
  translateNow();
  const above = svg("g", parts(lines, lines.getBoundingClientRect()));
  const top = Math.max(0, y) - lines.offsetHeight;
  lines.remove();
  const size = {
    width: Math.ceil(Math.max(right - left, extentOf(above).width) + 2 * MARGIN),
    height: Math.ceil(bottom - top + 2 * MARGIN),
  };
  above.setAttribute("transform", `translate(${left} ${top})`);
  const corner = { x: left - MARGIN, y: top - MARGIN };
  const root = svg(
    "svg",
    { ...size, viewBox: `${corner.x} ${corner.y} ${size.width} ${size.height}` },
    svg("rect", { ...corner, ...size, fill: "#ffffff" }),
    above,
    content,
  );
  return { text: new XMLSerializer().serializeToString(root), ...size };
}

/**
 * An element as SVG text: letters stay letters, canvases become pictures inside it.
 * @param {HTMLElement} element @param {string[]} title lines above it
 */
export const picture = (element, title) => asPicture(element, () => pictureNow(element, title));
