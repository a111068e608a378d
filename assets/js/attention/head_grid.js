// All attention heads as one picture. The weights come once, as bytes, and are painted on a single canvas; transparent
// buttons lie over it, so that 144 heads can be pressed, named and reached with the keyboard.

import { el, note, roam } from "../parts/elements.js";
import { follow } from "../parts/page.js";
import { bytesOf, change, listen, pixels, shared } from "./heads.js";

const GLYPHS = { next: "→", previous: "←", same: "=", cls: "C", sep: "S", other: "⇄", even: "∷" };
const INSET = 3;
const SMALLEST_WITH_NUMBER = 44;

export function headGrid(root, { trigger, options }) {
  follow(root, () => trigger("submit"));
  const colours = pixels(options.colour);
  const choose = el("select", { "aria-label": "Colour the heads by" });
  const sort = el("button", { type: "button", class: "balcony-small" }, "Sort");
  const tools = el("div", { class: "balcony-tools", "data-no-picture": "" }, el("label", {}, "Colour by ", choose), sort);
  const title = el("h3", {}), frame = el("div", {}), legend = el("div", { class: "balcony-legend" }), notes = el("div", {});
  const canvas = el("canvas", { "aria-hidden": "true" });
  const thumb = el("canvas", {});
  let value = null, bytes = null, built = "";

  choose.addEventListener("change", () => change({ fact: choose.value, sorted: shared.sorted && choose.value !== "" }));
  sort.addEventListener("click", () => change({ sorted: !shared.sorted }));
  new ResizeObserver(() => paint()).observe(frame);
  listen(root, () => { if (value) show(); });

  /** The fact that is shown; one that compares two models goes with the second one. */
  const chosen = () => (shared.fact in value.facts ? shared.fact : "");
  const factOf = ([layer, head]) => (chosen() ? value.facts[chosen()][layer][head] : null);

  function order() {
    const all = [];
    for (let layer = 0; layer < value.layers; layer += 1) {
      for (let head = 0; head < value.heads; head += 1) all.push([layer, head]);
    }
    if (shared.sorted && chosen()) all.sort((a, b) => (factOf(b) ?? -1) - (factOf(a) ?? -1));
    return all;
  }

  function press(layer, head) {
    change({ picked: [layer, head], active: new Set([head]) });
    trigger("select", { layer, head });
  }

  function button(layer, head) {
    const item = el("button", { type: "button", class: "balcony-head", "data-head": `${layer}.${head}` },
      el("span", { class: "balcony-head-badge", "aria-hidden": "true" }), el("span", { class: "balcony-head-value", "aria-hidden": "true" }));
    item.addEventListener("click", () => press(layer, head));
    return item;
  }

  function build(heads) {
    const focused = frame.contains(document.activeElement) ? document.activeElement.dataset.head : null;
    const inRows = !(shared.sorted && chosen());
    const grid = el("div", { class: inRows ? "balcony-heads" : "balcony-heads is-sorted", role: "group", "aria-label": "Attention heads" }, canvas);
    heads.forEach(([layer, head], index) => {
      if (inRows && index % value.heads === 0) {
        grid.append(el("span", { class: "balcony-heads-label", "aria-hidden": "true" }, `Layer ${layer + 1}`));
      }
      grid.append(button(layer, head));
    });
    grid.style.setProperty("--heads", value.heads);
    roam(grid, value.heads);
    frame.replaceChildren(grid);
    if (focused) grid.querySelector(`[data-head="${focused}"]`)?.focus();
  }

  function name([layer, head]) {
    const fact = factOf([layer, head]), pattern = value.names[layer][head];
    return `Layer ${layer + 1}, head ${head + 1}${pattern ? `: ${value.patterns[pattern]}` : ""}` +
      (chosen() ? `. ${value.titles[chosen()]}: ${fact === null ? "none" : fact.toFixed(3)}` : "");
  }

  function show() {
    const heads = order(), plan = `${value.layers}.${value.heads}.${shared.sorted && chosen() ? heads.join(" ") : ""}`;
    if (plan !== built) build(heads);
    built = plan;
    choose.value = chosen();
    sort.disabled = !chosen();
    sort.setAttribute("aria-pressed", shared.sorted && chosen() !== "");
    const picked = shared.picked.join(".");
    for (const item of frame.querySelectorAll("button")) {
      const place = item.dataset.head.split(".").map(Number), said = name(place), fact = factOf(place);
      item.setAttribute("aria-label", said);
      item.title = said;
      item.setAttribute("aria-pressed", item.dataset.head === picked);
      item.firstChild.textContent = GLYPHS[value.names[place[0]][place[1]]] || "";
      item.lastChild.textContent = fact === null || item.offsetWidth < SMALLEST_WITH_NUMBER ? "" : fact.toFixed(2);
    }
    const counts = new Map();
    for (const pattern of value.names.flat()) if (pattern) counts.set(pattern, (counts.get(pattern) || 0) + 1);
    legend.replaceChildren(...[...counts].map(([pattern, count]) =>
      el("span", {}, el("b", {}, GLYPHS[pattern]), ` ${value.patterns[pattern]}: ${count === 1 ? "1 head" : `${count} heads`}`)),
    ...(counts.size ? [el("span", {}, value.label_hint)] : []));
    paint();
  }

  function paint() {
    const grid = frame.firstChild;
    if (!value || !grid || !grid.offsetWidth) return;
    const ratio = window.devicePixelRatio || 1, size = value.size;
    canvas.width = grid.scrollWidth * ratio;
    canvas.height = grid.scrollHeight * ratio;
    canvas.style.width = `${grid.scrollWidth}px`;
    canvas.style.height = `${grid.scrollHeight}px`;
    const pen = canvas.getContext("2d"), small = thumb.getContext("2d", { willReadFrequently: true });
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = false;
    thumb.width = thumb.height = size;
    const image = new ImageData(size, size), cells = new Uint32Array(image.data.buffer);
    const facts = chosen() ? value.facts[chosen()].flat().filter((fact) => fact !== null) : [];
    const lowest = Math.min(...facts), range = Math.max(...facts) - lowest || 1;
    for (const item of grid.querySelectorAll("button")) {
      const [layer, head] = item.dataset.head.split(".").map(Number);
      const offset = (layer * value.heads + head) * size * size;
      for (let cell = 0; cell < cells.length; cell += 1) cells[cell] = colours[bytes[offset + cell]];
      small.putImageData(image, 0, 0);
      const x = item.offsetLeft + INSET, y = item.offsetTop + INSET, side = item.offsetWidth - 2 * INSET;
      const fact = factOf([layer, head]);
      if (fact !== null) {
        pen.fillStyle = `rgba(217, 134, 20, ${0.05 + 0.6 * ((fact - lowest) / range)})`;
        pen.fillRect(x, y, side, side);
      }
      pen.drawImage(thumb, x, y, side, side);
    }
  }

  return function draw(next) {
    if (!next || !next.size) {
      value = null;
      built = "";
      root.replaceChildren(...(next && next.error ? [note(next.error, true)]
        : next && next.hidden ? [] : [el("p", { class: "balcony-empty" }, "Type a sentence to see where each head looks.")]));
      return;
    }
    value = next;
    bytes = bytesOf(value.weights);
    if (!tools.isConnected) root.replaceChildren(title, tools, frame, legend, notes);
    if (choose.options.length !== 1 + Object.keys(value.titles).length) {
      choose.replaceChildren(el("option", { value: "" }, "the weights alone"),
        ...Object.entries(value.titles).map(([key, text]) => el("option", { value: key }, text)));
    }
    title.textContent = value.caption || "All heads";
    title.dir = "auto";
    Object.assign(shared, { picked: value.picked });
    show();
    notes.replaceChildren(...value.notes.map((text) => note(text)));
  };
}
