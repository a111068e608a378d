// What the page shows as the text of an SVG file.

import { svg } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = 12;
// What a style sheet may say about a part of an SVG; elsewhere that style sheet is missing.
const SVG_STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity",
  "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "direction", "unicode-bidi"];
const NO_XML = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g;

const seen = (colour) => colour && colour !== "transparent" && !/, 0\)$|\/ 0\)$/.test(colour);

/** The colour that lies behind an element. */
function backdrop(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (seen(colour)) return colour;
  }
  return "#ffffff";
}

/** The lines of a text node as it is broken on the page: [text, rectangle] each. */
function linesOf(node) {
  const text = node.data.trim();
  if (!text) return [];
  const range = document.createRange();
  let at = node.data.indexOf(text);
  range.setStart(node, at);
  range.setEnd(node, at + text.length);
  const whole = range.getClientRects();
  if (whole.length === 1) return [[text, whole[0]]];
  const lines = [];
  for (const letter of text) {
    range.setStart(node, at);
    range.setEnd(node, (at += letter.length));
    const place = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (!place.width) continue;
    if (last && Math.abs(last[1].top - place.top) < place.height / 2) {
      last[0] += letter;
      const left = Math.min(last[1].left, place.left);
      last[1] = new DOMRect(left, last[1].top, Math.max(last[1].right, place.right) - left, last[1].height);
    } else lines.push([letter, place]);
  }
  return lines;
}

const pen = /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));

function letters(node, origin) {
  const style = getComputedStyle(node.parentElement);
  pen.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  const ascent = pen.measureText("x").fontBoundingBoxAscent;
  return linesOf(node).map(([text, place]) => {
    const leftward = style.direction === "rtl";
    const line = svg("text", {
      x: (leftward ? place.right : place.left) - origin.left, y: place.top - origin.top + ascent, fill: style.color,
      "font-family": style.fontFamily, "font-size": style.fontSize, "font-weight": style.fontWeight, direction: style.direction,
      "xml:space": "preserve",
    });
    if (style.textDecorationLine !== "none") line.setAttribute("text-decoration", style.textDecorationLine);
    line.textContent = text.replace(/\s+/g, " ").trim().replace(NO_XML, "");
    return line;
  });
}

function box(style, place, origin) {
  const width = parseFloat(style.borderTopWidth);
  const hasBorder = width && style.borderTopStyle !== "none" && seen(style.borderTopColor);
  if (!seen(style.backgroundColor) && !hasBorder) return [];
  const inset = hasBorder ? width / 2 : 0;
  return [svg("rect", {
    x: place.left - origin.left + inset, y: place.top - origin.top + inset,
    width: Math.max(0, place.width - 2 * inset), height: Math.max(0, place.height - 2 * inset),
    rx: Math.min(parseFloat(style.borderTopLeftRadius) || 0, place.height / 2),
    fill: seen(style.backgroundColor) ? style.backgroundColor : "none",
    stroke: hasBorder ? style.borderTopColor : "none", "stroke-width": hasBorder ? width : 0,
    ...(style.borderTopStyle === "dashed" ? { "stroke-dasharray": "4 3" } : {}),
  })];
}

function drawing(original, place, origin) {
  const copy = original.cloneNode(true);
  const parts = [original, ...original.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((part, index) => {
    const style = getComputedStyle(parts[index]);
    for (const name of SVG_STYLES) part.style.setProperty(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role"]) part.removeAttribute(name);
    // Plotly names its clip paths with the address of the page, which another program can't open.
    const clip = part.getAttribute("clip-path");
    if (clip) part.setAttribute("clip-path", clip.replace(/url\(['"]?[^#]*#([^'")]*)['"]?\)/, "url(#$1)"));
  });
  for (const [name, value] of Object.entries({ x: place.left - origin.left, y: place.top - origin.top,
    width: place.width, height: place.height, overflow: "visible" })) copy.setAttribute(name, value);
  return copy;
}

function parts(node, origin) {
  if (node.nodeType === Node.TEXT_NODE) return letters(node, origin);
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches("input, select, textarea, [data-no-picture]")) return [];
  const style = getComputedStyle(node);
  const place = node.getBoundingClientRect();
  if (style.display === "none" || style.visibility === "hidden" || style.clipPath !== "none" || style.opacity === "0") return [];
  if (node.namespaceURI === SVG) return place.width ? [drawing(node, place, origin)] : [];
  if (node instanceof HTMLCanvasElement) {
    return [svg("image", { x: place.left - origin.left, y: place.top - origin.top, width: place.width, height: place.height,
      href: node.toDataURL() })];
  }
  const drawn = [...box(style, place, origin), ...[...node.childNodes].flatMap((child) => parts(child, origin))];
  if (style.opacity === "1" || !drawn.length) return drawn;
  const group = svg("g", { opacity: style.opacity });
  group.append(...drawn);
  return [group];
}

/** What an element shows as the text of an SVG file: letters stay letters, canvases become pictures inside it. */
export function picture(element) {
  const origin = element.getBoundingClientRect();
  const content = svg("g", {}), root = svg("svg", { style: "position: absolute; visibility: hidden" });
  content.append(...parts(element, origin));
  root.append(content);
  document.body.append(root);  // where it has a size
  const { x, y, width, height } = content.getBBox();
  root.remove();
  const left = Math.max(0, x) - MARGIN, top = Math.max(0, y) - MARGIN;
  const size = {
    width: Math.ceil(Math.min(x + width, element.scrollWidth) - left + MARGIN),
    height: Math.ceil(Math.min(y + height, element.scrollHeight) - top + MARGIN),
  };
  const attributes = { ...size, viewBox: `${left} ${top} ${size.width} ${size.height}` };
  root.removeAttribute("style");
  for (const [name, value] of Object.entries(attributes)) root.setAttribute(name, `${value}`);
  root.prepend(svg("rect", { x: left, y: top, ...size, fill: backdrop(element) }));
  return { text: new XMLSerializer().serializeToString(root), ...size };
}
