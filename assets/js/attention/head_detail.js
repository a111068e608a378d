// One layer of attention close up: a head as a map of words, heads as lines between words, and averages over heads.

import { el, roam, svg } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { bytesOf, change, listen, shared } from "./heads.js";

const MODES = { map: "One head", lines: "Lines", average: "Average" };
const FILTERS = { all: "all words", "0.0": "A → A", "0.1": "A → B", "1.0": "B → A", "1.1": "B → B" };
const MEANS = { heads: "the heads of the layer", all: "all heads and layers", rollout: "rollout up to the layer" };
const MEANS_HINTS = {
  heads: "The mean over the heads of this layer.", all: "The mean over all heads of all layers.",
  rollout: "How much of each word reaches each place by way of all layers up to this one, when half of every layer passes it by " +
    "(Abnar & Zuidema 2020).",
};
const BUCKETS = 8; // widths of lines: a few paths instead of thousands
const LINES_FROM = 0.02;
const HINT = "A row is a word that looks; point at a cell to read the weight.";

const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;
const number = (weight) => (weight > 0 && weight < 0.0005 ? "<0.001" : weight.toFixed(3));

/** Shares of 1 from bytes: two for each weight, 65535 standing for 1. */
function shares(text) {
  const whole = new Uint16Array(bytesOf(text).buffer);
  return Float32Array.from(whole, (weight) => weight / 65535);
}

export function headDetail(root, { options }) {
  const tabs = Object.entries(MODES).map(([mode, text]) => {
    const tab = el("button", { type: "button", role: "tab", class: "balcony-small", "data-mode": mode }, text);
    tab.addEventListener("click", () => change({ mode }));
    return tab;
  });
  const tablist = el("div", { role: "tablist", "aria-label": "How attention is drawn", class: "balcony-tools" }, ...tabs);
  roam(tablist);
  const under = el("output", {});
  const threshold = el("input", { type: "range", min: "0", max: "0.5", step: "0.01", "aria-label": "Hide weights under" });
  threshold.addEventListener("input", () => change({ threshold: Number(threshold.value) }));
  const choice = (name, texts, key) => {
    const select = el("select", { "aria-label": name },
      ...Object.entries(texts).map(([value, text]) => el("option", { value }, text)));
    select.addEventListener("change", () => change({ [key]: select.value }));
    return select;
  };
  const filter = choice("Lines between", FILTERS, "filter"), mean = choice("Average over", MEANS, "mean");
  const chips = el("div", { class: "balcony-tools", role: "group", "aria-label": "Heads that are drawn",
    title: "Press a head to show or hide it; double-click it, or press it with Shift, to see it alone" });
  const extra = el("div", { class: "balcony-tools balcony-extra", "data-no-picture": "" });
  const tools = el("div", { class: "balcony-tools", "data-no-picture": "" }, tablist,
    el("label", { class: "balcony-threshold" }, "Hide weights under ", threshold, under));
  const title = el("h3", { class: "balcony-map-title" }), readout = el("p", { class: "balcony-readout", "aria-live": "polite" });
  const told = el("p", { class: "balcony-empty" });
  const body = el("div", { class: "balcony-attention", role: "tabpanel", tabindex: "-1" });
  const picture = heatMap(readout);
  let value = null, layer = null, averages = null, rollout = null, pinned = null, width = 0;

  listen(root, () => {
    if (!value) return;
    // A head of the layer that is here needs no answer from the server.
    if (shared.picked[0] === value.layer && shared.picked[1] < value.heads) value.head = shared.picked[1];
    show();
  });
  new ResizeObserver(() => { if (value && body.clientWidth && body.clientWidth !== width) show(); }).observe(body);

  const active = () => new Set([...(shared.active || [value.head])].filter((head) => head < value.heads));
  const matrixOf = (all, index) => all.subarray(index * value.tokens.length ** 2, (index + 1) * value.tokens.length ** 2);

  function map(matrix, hint) {
    const { tokens, segments } = value, n = tokens.length, second = segments.indexOf(1);
    if (body.firstChild !== picture.element) body.replaceChildren(picture.element);
    picture.draw({
      rows: tokens, columns: tokens, values: matrix, colour: options.colour, room: body.clientWidth || 600,
      alpha: (weight) => (weight < shared.threshold ? 0 : Math.max(0.03, Math.sqrt(weight))),
      border: second > 0 ? [second, second] : null,
      label: `${title.textContent}; the arrow keys go from cell to cell`, hint,
      describe: (i, j) => [el("bdi", {}, tokens[i]), " → ", el("bdi", {}, tokens[j]), `: ${number(matrix[i * n + j])}`],
    });
  }

  // --- lines -------------------------------------------------------------------------------------------------------

  function lines() {
    const { tokens, segments } = value, n = tokens.length, height = n > 40 ? 18 : 24;
    const shown = [...active()], from = Math.max(LINES_FROM, shared.threshold);
    const drawing = svg("svg", { height: n * height, width: "100%", "aria-hidden": "true" });
    const sides = [0, 1].map((side) => {
      const words = tokens.map((token, index) => {
        const item = el("button", { type: "button", class: "balcony-line-word", title: token,
          "aria-label": side ? `${token}, looked at` : `${token}, looks` },
          el("bdi", {}, token), el("span", { class: "balcony-line-weight" }));
        item.style.height = `${height}px`;
        item.addEventListener("pointerenter", () => trace([side, index]));
        item.addEventListener("focus", () => trace([side, index]));
        item.addEventListener("pointerleave", () => trace(pinned));
        item.addEventListener("click", () => {
          pinned = pinned && pinned[0] === side && pinned[1] === index ? null : [side, index];
          trace(pinned);
        });
        return item;
      });
      const list = el("div", { class: side ? "balcony-line-side" : "balcony-line-side is-left", role: "group",
        "aria-label": side ? "Words that are looked at" : "Words that look" }, ...words);
      roam(list, 1);
      return list;
    });
    const passes = (i, j) => shared.filter === "all" || shared.filter === `${segments[i]}.${segments[j]}`;

    function trace(word) {
      const across = drawing.clientWidth || 240, paths = [], totals = new Float32Array(n);
      const alone = word && word[1] < n ? word : null;
      for (const head of shown) {
        const matrix = matrixOf(layer, head), d = Array.from({ length: BUCKETS }, () => []);
        for (let i = 0; i < n; i += 1) {
          if (alone && alone[0] === 0 && alone[1] !== i) continue;
          for (let j = 0; j < n; j += 1) {
            if (alone && alone[0] === 1 && alone[1] !== j) continue;
            const weight = matrix[i * n + j];
            if (!passes(i, j)) continue;
            if (alone) totals[alone[0] ? i : j] += weight / shown.length;
            if (weight < from && !(alone && weight >= shared.threshold && weight > 0.002)) continue;
            d[Math.min(BUCKETS - 1, Math.floor(weight * BUCKETS))].push(
              `M0 ${(i + 0.5) * height}C${across / 2} ${(i + 0.5) * height} ${across / 2} ${(j + 0.5) * height} ${across} ${(j + 0.5) * height}`);
          }
        }
        d.forEach((parts, bucket) => {
          if (!parts.length) return;
          const share = (bucket + 0.5) / BUCKETS;
          paths.push(svg("path", { d: parts.join(""), fill: "none", stroke: colourOf(head), "stroke-width": (0.6 + 6 * share).toFixed(2),
            "stroke-opacity": Math.min(0.9, 0.22 + 0.75 * Math.sqrt(share)).toFixed(2) }));
        });
      }
      drawing.replaceChildren(...paths);
      sides.forEach((side, number_) => [...side.children].forEach((item, index) => {
        const told = alone && alone[0] !== number_ && totals[index] >= Math.max(shared.threshold, 0.0005);
        item.lastChild.textContent = told ? totals[index].toFixed(2) : "";
        item.style.setProperty("--share", told ? Math.sqrt(totals[index]).toFixed(2) : 0);
        item.setAttribute("aria-pressed", Boolean(pinned && pinned[0] === number_ && pinned[1] === index));
      }));
    }

    body.replaceChildren(el("div", { class: "balcony-lines" }, sides[0], drawing, sides[1]));
    trace(pinned);
    readout.textContent = "Words on the left look at words on the right; point at a word for its lines, press it to keep them.";
  }

  function toggle(head, alone) {
    const now = active();
    if (alone) now.clear();
    if (alone || !now.delete(head)) now.add(head);
    change({ active: now });
  }

  function drawChips() {
    const on = active();
    if (chips.children.length !== value.heads + 1) {
      const every = el("button", { type: "button", class: "balcony-small" }, "All");
      every.addEventListener("click", () => change({ active: new Set(Array.from({ length: value.heads }, (_, head) => head)) }));
      chips.replaceChildren(every, ...Array.from({ length: value.heads }, (_, head) => {
        const chip = el("button", { type: "button", class: "balcony-chip", "aria-label": `Head ${head + 1}` }, `${head + 1}`);
        chip.style.setProperty("--chip", colourOf(head));
        chip.addEventListener("click", (event) => toggle(head, event.shiftKey));
        chip.addEventListener("dblclick", () => toggle(head, true));
        return chip;
      }));
      roam(chips);
    }
    [...chips.children].slice(1).forEach((chip, head) => chip.setAttribute("aria-pressed", on.has(head)));
  }

  // --- all of it ---------------------------------------------------------------------------------------------------

  function show() {
    width = body.clientWidth;
    tabs.forEach((tab) => tab.setAttribute("aria-selected", tab.dataset.mode === shared.mode));
    body.setAttribute("aria-label", MODES[shared.mode]);
    threshold.value = shared.threshold;
    under.textContent = shared.threshold.toFixed(2);
    filter.value = shared.filter;
    mean.value = shared.mean;
    told.textContent = "";
    const place = `Layer ${value.layer + 1}`, n = value.tokens.length;
    if (shared.mode === "map") {
      extra.replaceChildren();
      title.textContent = `${place}, head ${value.head + 1}`;
      map(matrixOf(layer, value.head), HINT);
      if (value.apart) told.textContent = `${percent(value.apart[value.head])} of a word's attention goes to other words than in the other model.`;
    } else if (shared.mode === "lines") {
      drawChips();
      extra.replaceChildren(chips, ...(value.segments.includes(1) ? [el("label", {}, "Lines ", filter)] : []));
      const on = [...active()].sort((a, b) => a - b).map((head) => head + 1);
      title.textContent = on.length === 1 ? `${place}, head ${on[0]}` : `${place}, heads ${on.join(", ") || "none"}`;
      lines();
    } else {
      extra.replaceChildren(el("label", {}, "Average over ", mean));
      const all = new Float32Array(n * n);
      if (shared.mean === "all") averages.forEach((weight, index) => { all[index % (n * n)] += weight / value.layers; });
      title.textContent = { heads: `${place}, mean of its heads`, all: "Mean of all heads and layers", rollout: `Rollout up to layer ${value.layer + 1}` }[shared.mean];
      map(shared.mean === "all" ? all : matrixOf(shared.mean === "heads" ? averages : rollout, value.layer), MEANS_HINTS[shared.mean]);
    }
  }

  return function draw(next) {
    value = next && next.tokens ? { ...next } : null;
    if (!value) { root.replaceChildren(); return; }
    if (!tools.isConnected) root.replaceChildren(tools, extra, title, body, readout, told);
    layer = shares(value.weights);
    averages = shares(value.averages);
    rollout = shares(value.rollout);
    show();
  };
}
