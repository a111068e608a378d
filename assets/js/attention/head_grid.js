// All attention heads in one picture. The weights come once, as bytes, and are painted on one canvas; transparent
// buttons lie over it, so that 144 heads can be pressed, named and reached with the keyboard.

import { colours, legend, onTheme, pixels } from "../colours.js";
import { disable, el, nodes, note, roam } from "../parts/elements.js";
import { bytesOf, change, onChange, settings } from "./heads.js";

/** @typedef {[layer: number, head: number]} Head counted from 0 */
/**
 * @typedef {object} Heads All heads of a model.
 * @property {number} first the number of the first layer, from 0
 * @property {number} layers that are shown
 * @property {number} of the layers of the model
 * @property {number} heads of a layer
 * @property {number} size rows and columns of a head's picture
 * @property {string} weights base64; a byte for each weight, 255 times its root
 * @property {Head} picked
 * @property {Record<string, (number | null)[][]>} facts numbers by layer and head
 * @property {Record<string, string>} titles of the facts
 * @property {Record<string, number>} most the largest value that a fact can have, if that is not 1
 * @property {string[][] | null} names the pattern of each head, "" for none; null: they come later
 * @property {string} [unnamed] why they do not come
 * @property {Record<string, string>} patterns what each pattern does
 * @property {string} label_hint what a pattern is, shown when a head has one
 * @property {string[]} notes
 * @property {string} [caption]
 */

/** @type {Record<string, string>} */
const GLYPHS = { next: "→", previous: "←", same: "=", cls: "C", sep: "S", other: "⇄" };
const INSET = 3;
const FRAME = 0.14; // of a head's side, in the colour of its fact
const SMALLEST_WITH_NUMBER = 44;

/** @type {View} */
export function view(root) {
  const choose = el("select", { "aria-label": "Colour the heads by" });
  const sort = el("button", { class: "b-small" }, "Sort");
  const layer = el("select", { "aria-label": "Layer" }),
    layerTool = el("label", {}, "Layer ", layer);
  const tools = el(
    "div",
    { class: "b-tools", "data-no-picture": "" },
    layerTool,
    el("label", {}, "Colour by ", choose),
    sort,
  );
  const title = el("h3", {}),
    frame = el("div", {}),
    key = el("div", {}),
    notes = el("div", {});
  const canvas = el("canvas", { "aria-hidden": "true" });
  const thumb = el("canvas", {});
  /** @type {Heads} */
  let value;
  let bytes = new Uint8Array();
  let built = ""; // the heads whose buttons are on the page, "" for none

  choose.addEventListener("change", () =>
    change({ fact: choose.value, sorted: settings.sorted && choose.value !== "" }),
  );
  layer.addEventListener("change", () => change({ picked: [Number(layer.value), settings.picked[1]] }));
  sort.addEventListener("click", () => change({ sorted: !settings.sorted }));
  new ResizeObserver(() => {
    if (built) paint();
  }).observe(frame);
  for (const when of [onChange, onTheme])
    when(root, () => {
      if (built) show();
    });

  /** The fact that colours the heads; only the second model has the one that compares two models. */
  const fact = () => (settings.fact in value.facts ? settings.fact : "");
  /** @param {Head} head */
  const factOf = ([layer, head]) => (fact() ? value.facts[fact()][layer - value.first][head] : null);
  /** @param {HTMLElement} item @returns {Head} */
  const headOf = (item) => [Number(item.dataset.layer), Number(item.dataset.head)];

  function headsInOrder() {
    /** @type {Head[]} */
    const all = [];
    for (let layer = value.first; layer < value.first + value.layers; layer += 1) {
      for (let head = 0; head < value.heads; head += 1) all.push([layer, head]);
    }
    if (settings.sorted && fact()) all.sort((a, b) => (factOf(b) ?? -1) - (factOf(a) ?? -1));
    return all;
  }

  /** @param {number} layer @param {number} head */
  function button(layer, head) {
    const item = el(
      "button",
      { class: "b-head", "data-layer": layer, "data-head": head },
      el("span", { class: "b-head-badge", "aria-hidden": "true" }),
      el("span", { class: "b-head-value", "aria-hidden": "true" }),
    );
    item.addEventListener("click", () => change({ picked: [layer, head], active: new Set([head]) }));
    return item;
  }

  /** @param {Head[]} heads */
  function build(heads) {
    const focused = /** @type {HTMLElement | null} */ (frame.querySelector("button:focus"));
    const inRows = !(settings.sorted && fact());
    const grid = el(
      "div",
      { class: inRows ? "b-heads" : "b-heads is-sorted", role: "group", "aria-label": "Attention heads" },
      canvas,
    );
    heads.forEach(([layer, head], index) => {
      if (inRows && index % value.heads === 0) {
        grid.append(el("span", { class: "b-heads-label", "aria-hidden": "true" }, `Layer ${layer + 1}`));
      }
      grid.append(button(layer, head));
    });
    grid.style.setProperty("--heads", `${value.heads}`);
    roam(grid, value.heads);
    frame.replaceChildren(grid);
    if (!focused) return;
    const [layer, head] = headOf(focused);
    /** @type {HTMLElement | null} */ (grid.querySelector(`[data-layer="${layer}"][data-head="${head}"]`))?.focus();
  }

  /** @param {Head} head */
  const patternOf = ([layer, head]) => value.names?.[layer - value.first][head] ?? "";

  /** @param {Head} head */
  function nameOf([layer, head]) {
    const number = factOf([layer, head]),
      pattern = patternOf([layer, head]);
    return (
      `Layer ${layer + 1}, head ${head + 1}${pattern ? `: ${value.patterns[pattern]}` : ""}` +
      (fact() ? `. ${value.titles[fact()]}: ${number === null ? "none" : number.toFixed(3)}` : "")
    );
  }

  function show() {
    const heads = headsInOrder(),
      wanted = `${value.first}.${value.layers}.${value.heads}.${settings.sorted && fact() ? heads.join(" ") : ""}`;
    if (wanted !== built) build(heads);
    built = wanted;
    choose.value = fact();
    layerTool.hidden = value.layers === value.of;
    if (layer.length !== value.of)
      layer.replaceChildren(...Array.from({ length: value.of }, (_, at) => el("option", { value: at }, `${at + 1}`)));
    layer.value = `${value.first}`;
    disable(sort, !fact() && "Choose another colour first: weights have no order.");
    sort.setAttribute("aria-pressed", `${settings.sorted && fact() !== ""}`);
    for (const item of frame.querySelectorAll("button")) {
      const [layer, head] = headOf(item),
        name = nameOf([layer, head]),
        number = factOf([layer, head]);
      const [badge, small] = item.children;
      item.setAttribute("aria-label", name);
      item.title = name;
      item.setAttribute("aria-pressed", `${layer === settings.picked[0] && head === settings.picked[1]}`);
      badge.textContent = GLYPHS[patternOf([layer, head])] ?? "";
      small.textContent = number === null || item.offsetWidth < SMALLEST_WITH_NUMBER ? "" : number.toFixed(2);
    }
    const counts = new Map();
    for (const pattern of value.names?.flat() ?? []) if (pattern) counts.set(pattern, (counts.get(pattern) || 0) + 1);
    const most = value.most[fact()] ?? 1;
    key.replaceChildren(
      ...(fact()
        ? [
            legend(
              `Frame: ${value.titles[fact()]}`,
              [0, 0.25, 0.5, 0.75, 1].map((part) => Number((part * most).toFixed(2))),
              (number) => number / most,
            ),
          ]
        : []),
      ...(counts.size
        ? [
            el(
              "div",
              { class: "b-legend" },
              ...[...counts].map(([pattern, count]) =>
                el(
                  "span",
                  {},
                  el("b", {}, GLYPHS[pattern]),
                  ` ${value.patterns[pattern]}: ${count === 1 ? "1 head" : `${count} heads`}`,
                ),
              ),
              el("span", {}, value.label_hint),
            ),
          ]
        : []),
      ...(value.names
        ? []
        : [
            value.unnamed
              ? note(value.unnamed, true)
              : el("p", { class: "b-empty", "data-no-picture": "" }, "The heads get their names…"),
          ]),
    );
    paint();
  }

  function paint() {
    const grid = /** @type {HTMLElement} */ (frame.firstChild);
    if (!grid.offsetWidth) return;
    const ratio = window.devicePixelRatio || 1,
      size = value.size;
    canvas.width = grid.scrollWidth * ratio;
    canvas.height = grid.scrollHeight * ratio;
    canvas.style.width = `${grid.scrollWidth}px`;
    canvas.style.height = `${grid.scrollHeight}px`;
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const small = /** @type {CanvasRenderingContext2D} */ (thumb.getContext("2d", { willReadFrequently: true }));
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = false;
    thumb.width = thumb.height = size;
    const image = new ImageData(size, size),
      cells = new Uint32Array(image.data.buffer),
      weights = pixels(),
      colour = colours();
    for (const item of grid.querySelectorAll("button")) {
      const [layer, head] = headOf(item),
        offset = ((layer - value.first) * value.heads + head) * size * size;
      for (let cell = 0; cell < cells.length; cell += 1) cells[cell] = weights[bytes[offset + cell]];
      small.putImageData(image, 0, 0);
      const x = item.offsetLeft,
        y = item.offsetTop,
        side = item.offsetWidth,
        number = factOf([layer, head]);
      const inset = number === null ? INSET : Math.max(INSET, Math.round(FRAME * side));
      if (number !== null) {
        pen.fillStyle = colour(number / (value.most[fact()] ?? 1));
        pen.fillRect(x, y, side, side);
      }
      pen.drawImage(thumb, x + inset, y + inset, side - 2 * inset, side - 2 * inset);
    }
  }

  return function draw(/** @type {Heads & {error?: string, hidden?: boolean} | null} */ next) {
    if (!next?.size) {
      built = "";
      root.replaceChildren(
        ...(next?.error
          ? [note(next.error, true)]
          : next?.hidden
            ? []
            : [el("p", { class: "b-empty" }, "Type a sentence to see which words each head attends to.")]),
      );
      return;
    }
    value = next;
    bytes = bytesOf(value.weights);
    if (!tools.isConnected) root.replaceChildren(title, tools, frame, key, notes);
    if (choose.options.length !== 1 + Object.keys(value.titles).length) {
      choose.replaceChildren(
        el("option", { value: "" }, "weights only"),
        ...Object.entries(value.titles).map(([key, text]) => el("option", { value: key }, text)),
      );
    }
    const all = value.layers === value.of ? "All heads" : `Heads of layer ${value.first + 1} of ${value.of}`;
    title.replaceChildren(...nodes(value.caption || all));
    title.dir = "auto";
    if (settings.picked[0] >= value.of || settings.picked[1] >= value.heads) settings.picked = value.picked;
    show();
    notes.replaceChildren(...value.notes.map((text) => note(text)));
  };
}
