// One layer of attention in detail: a head as a map of words, heads as lines between words, averages over heads.

import { level } from "../colours.js";
import { el, note, roam, svg } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { bytesOf, change, onChange, settings } from "./heads.js";

/**
 * @typedef {object} Layer
 * @property {string[]} tokens
 * @property {number[]} segments 0 or 1 for each token
 * @property {number} layer
 * @property {number} head
 * @property {number} first the number of the first layer in averages and rollout
 * @property {number} heads of a layer
 * @property {string} weights of the layer's heads, base64; two bytes for each weight, as in averages and rollout
 * @property {string} averages over the heads of each layer
 * @property {string} rollout up to each layer
 * @property {string} mean over all heads of all layers
 * @property {number[] | null} apart how much each head differs from the other model's, a fraction
 */
/** @typedef {[side: 0 | 1, index: number]} Word on the left, which attends, or on the right, which is attended to */

const MODES = { map: "One head", lines: "Lines", average: "Average" };
const FILTERS = { all: "all words", "0.0": "A → A", 0.1: "A → B", "1.0": "B → A", 1.1: "B → B" };
const MEANS = { heads: "the heads of the layer", all: "all heads and layers", rollout: "rollout up to the layer" };
const MEANS_HINTS = {
  heads: "The mean over the heads of this layer.",
  all: "The mean over all heads of all layers.",
  rollout:
    "Attention rollout (Abnar & Zuidema 2020): attention multiplied through the layers up to this one, half of " +
    "each replaced by the residual path.",
};
const BUCKETS = 8; // widths of lines: a few paths instead of thousands
const LINES_FROM = 0.02;
const HINT = "A row is the word that attends, a column the word it attends to; point at a cell to read the weight.";
const LINES_HINT =
  "Words on the left attend to words on the right; point at a word to see its lines alone, click it to keep them.";

/** @param {number} head */
const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;
/** @param {number} weight */
const written = (weight) => (weight > 0 && weight < 0.0005 ? "<0.001" : weight.toFixed(3));

/**
 * Weights from base64, two bytes each; 65535 stands for 1.
 * @param {string} text
 */
function unpacked(text) {
  return Float32Array.from(new Uint16Array(bytesOf(text).buffer), (weight) => weight / 65535);
}

/** @type {View} */
export function view(root, { options }) {
  const tabs = Object.entries(MODES).map(([mode, text]) => {
    const tab = el("button", { role: "tab", class: "b-small", "data-mode": mode }, text);
    tab.addEventListener("click", () => change({ mode: /** @type {keyof typeof MODES} */ (mode) }));
    return tab;
  });
  const tablist = el("div", { role: "tablist", "aria-label": "How attention is drawn", class: "b-tools" }, ...tabs);
  roam(tablist);
  const limit = el("output", {});
  const threshold = el("input", {
    type: "range",
    min: "0",
    max: "0.5",
    step: "0.01",
    "aria-label": "Hide weights below",
  });
  threshold.addEventListener("input", () => change({ threshold: Number(threshold.value) }));

  /** @param {string} name @param {Record<string, string>} texts @param {"filter" | "mean"} key */
  function choice(name, texts, key) {
    const select = el(
      "select",
      { "aria-label": name },
      ...Object.entries(texts).map(([value, text]) => el("option", { value }, text)),
    );
    select.addEventListener("change", () => change({ [key]: select.value }));
    return select;
  }

  const filter = choice("Lines between", FILTERS, "filter"),
    mean = choice("Average over", MEANS, "mean");
  const chips = el("div", {
    class: "b-tools",
    role: "group",
    "aria-label": "Heads that are drawn",
    title: "Click a head to show or hide it; double-click or Shift-click it to see it alone",
  });
  const extra = el("div", { class: "b-tools b-extra", "data-no-picture": "" });
  const tools = el(
    "div",
    { class: "b-tools", "data-no-picture": "" },
    tablist,
    el("label", {}, "Hide weights below ", threshold, limit),
  );
  const title = el("h3", { class: "b-map-title" }),
    readout = el("p", { class: "b-readout", "aria-live": "polite" });
  const difference = el("p", { class: "b-empty" });
  const body = el("div", { role: "tabpanel", tabindex: "-1" });
  const picture = heatMap(readout);
  /** @type {Layer} */
  let value;
  let weights = new Float32Array(),
    averages = weights,
    rollout = weights,
    meanOfAll = weights;
  /** @type {Word | null} */
  let pinned = null;
  let width = 0;

  onChange(root, () => {
    if (!tools.isConnected) return;
    // A head of the same layer needs no answer from the server.
    if (settings.picked[0] === value.layer && settings.picked[1] < value.heads) value.head = settings.picked[1];
    show();
  });
  new ResizeObserver(() => {
    if (tools.isConnected && body.clientWidth && body.clientWidth !== width) show();
  }).observe(body);

  const active = () => new Set([...(settings.active || [value.head])].filter((head) => head < value.heads));

  /** @param {Float32Array<ArrayBuffer>} all @param {number} index */
  const matrixOf = (all, index) =>
    all.subarray(index * value.tokens.length ** 2, (index + 1) * value.tokens.length ** 2);

  /** @param {number} i @param {number} j */
  function unfold(i, j) {
    const detail = { head: [value.layer, value.head], tokens: value.tokens.length, i, j };
    root.dispatchEvent(new CustomEvent("unfold", { detail, bubbles: true }));
  }

  /** @param {Float32Array} matrix @param {string} hint */
  function map(matrix, hint) {
    const { tokens, segments } = value,
      n = tokens.length,
      second = segments.indexOf(1);
    if (body.firstChild !== picture.element) body.replaceChildren(picture.element);
    picture.draw({
      rows: tokens,
      columns: tokens,
      values: matrix,
      room: body.clientWidth || 600,
      measure: "Weight",
      level,
      least: settings.threshold,
      border: second > 0 ? [second, second] : null,
      ...(options.unfolds && settings.mode === "map" ? { press: unfold } : {}),
      label: `${title.textContent}; the arrow keys go from cell to cell`,
      hint,
      describe: (i, j) => [
        el("bdi", {}, tokens[i]),
        " → ",
        el("bdi", {}, tokens[j]),
        `: ${written(matrix[i * n + j])}`,
      ],
    });
  }

  // --- lines -------------------------------------------------------------------------------------------------------

  function lines() {
    const { tokens, segments } = value,
      n = tokens.length,
      height = n > 40 ? 18 : 24;
    const heads = [...active()],
      from = Math.max(LINES_FROM, settings.threshold);
    const drawing = svg("svg", { height: n * height, width: "100%", "aria-hidden": "true" });

    /** @param {0 | 1} side */
    function words(side) {
      const list = el("div", {
        class: side ? "b-line-side" : "b-line-side is-left",
        role: "group",
        "aria-label": side ? "Words attended to" : "Words that attend",
      });
      tokens.forEach((token, index) => {
        const item = el(
          "button",
          { class: "b-line-word", "aria-label": side ? `${token}, attended to` : `${token}, attends` },
          el("bdi", { title: token }, token),
          el("span", { class: "b-line-weight" }),
        );
        item.style.height = `${height}px`;
        item.addEventListener("pointerenter", () => trace([side, index]));
        item.addEventListener("focus", () => trace([side, index]));
        item.addEventListener("pointerleave", () => trace(pinned));
        item.addEventListener("click", () => {
          pinned = pinned && pinned[0] === side && pinned[1] === index ? null : [side, index];
          trace(pinned);
        });
        list.append(item);
      });
      roam(list);
      return list;
    }

    const sides = [words(0), words(1)];

    /** @param {number} i @param {number} j */
    const passes = (i, j) => settings.filter === "all" || settings.filter === `${segments[i]}.${segments[j]}`;

    /**
     * The curves of a head, by their width.
     * @param {Float32Array} matrix @param {Word | null} word the only one with lines @param {number} across
     */
    function curvesOf(matrix, word, across) {
      /** @type {string[][]} */
      const curves = Array.from({ length: BUCKETS }, () => []);
      for (let i = 0; i < n; i += 1) {
        for (let j = 0; j < n; j += 1) {
          const weight = matrix[i * n + j];
          if (!passes(i, j) || (word && word[1] !== (word[0] ? j : i))) continue;
          if (weight < from && !(word && weight >= settings.threshold && weight > 0.002)) continue;
          const start = (i + 0.5) * height,
            end = (j + 0.5) * height;
          curves[Math.min(BUCKETS - 1, Math.floor(weight * BUCKETS))].push(
            `M0 ${start}C${across / 2} ${start} ${across / 2} ${end} ${across} ${end}`,
          );
        }
      }
      return curves;
    }

    /**
     * Draw the lines of one word, or of all.
     * @param {Word | null} word
     */
    function trace(word) {
      const alone = word && word[1] < n ? word : null;
      const paths = [],
        totals = new Float32Array(n);
      for (const head of heads) {
        const matrix = matrixOf(weights, head);
        curvesOf(matrix, alone, drawing.clientWidth || 240).forEach((parts, bucket) => {
          if (!parts.length) return;
          const middle = (bucket + 0.5) / BUCKETS;
          paths.push(
            svg("path", {
              d: parts.join(""),
              fill: "none",
              stroke: colourOf(head),
              "stroke-width": (0.6 + 6 * middle).toFixed(2),
              "stroke-opacity": Math.min(0.9, 0.22 + 0.75 * Math.sqrt(middle)).toFixed(2),
            }),
          );
        });
        if (!alone) continue;
        for (let other = 0; other < n; other += 1) {
          const [i, j] = alone[0] ? [other, alone[1]] : [alone[1], other];
          if (passes(i, j)) totals[other] += matrix[i * n + j] / heads.length;
        }
      }
      drawing.replaceChildren(...paths);
      sides.forEach((list, side) =>
        [...list.querySelectorAll("button")].forEach((item, index) => {
          const isAttended = alone && alone[0] !== side && totals[index] >= Math.max(settings.threshold, 0.0005);
          item.children[1].textContent = isAttended ? totals[index].toFixed(2) : "";
          item.style.setProperty("--share", isAttended ? Math.sqrt(totals[index]).toFixed(2) : "0");
          item.setAttribute("aria-pressed", `${Boolean(pinned && pinned[0] === side && pinned[1] === index)}`);
        }),
      );
    }

    body.replaceChildren(el("div", { class: "b-lines" }, sides[0], drawing, sides[1]));
    trace(pinned);
    readout.textContent = LINES_HINT;
  }

  /** @param {number} head @param {boolean} alone */
  function toggle(head, alone) {
    const heads = active();
    if (alone) heads.clear();
    if (alone || !heads.delete(head)) heads.add(head);
    change({ active: heads });
  }

  function drawChips() {
    const on = active(),
      all = Array.from({ length: value.heads }, (_, head) => head);
    if (chips.children.length !== value.heads + 1) {
      const every = el("button", { class: "b-small" }, "All");
      every.addEventListener("click", () => change({ active: new Set(all) }));
      chips.replaceChildren(
        every,
        ...all.map((head) => {
          const chip = el("button", { class: "b-chip", "aria-label": `Head ${head + 1}` }, `${head + 1}`);
          chip.style.setProperty("--chip", colourOf(head));
          chip.addEventListener("click", (event) => toggle(head, event.shiftKey));
          chip.addEventListener("dblclick", () => toggle(head, true));
          return chip;
        }),
      );
      roam(chips);
    }
    [...chips.children].slice(1).forEach((chip, head) => chip.setAttribute("aria-pressed", `${on.has(head)}`));
  }

  // --- all of it ---------------------------------------------------------------------------------------------------

  function show() {
    width = body.clientWidth;
    tabs.forEach((tab) => tab.setAttribute("aria-selected", `${tab.dataset.mode === settings.mode}`));
    body.setAttribute("aria-label", MODES[settings.mode]);
    threshold.value = `${settings.threshold}`;
    limit.textContent = settings.threshold.toFixed(2);
    filter.value = settings.filter;
    mean.value = settings.mean;
    difference.textContent = "";
    const layer = `Layer ${value.layer + 1}`;
    if (settings.mode === "map") {
      extra.replaceChildren();
      title.textContent = `${layer}, head ${value.head + 1}`;
      map(matrixOf(weights, value.head), options.unfolds ? `${HINT} Click it to see how it comes about.` : HINT);
      if (value.apart) {
        difference.textContent = `${percent(value.apart[value.head])} of a word's attention goes to other words than in the other model.`;
      }
    } else if (settings.mode === "lines") {
      drawChips();
      extra.replaceChildren(chips, ...(value.segments.includes(1) ? [el("label", {}, "Lines ", filter)] : []));
      const on = [...active()].sort((a, b) => a - b).map((head) => head + 1);
      title.textContent = on.length === 1 ? `${layer}, head ${on[0]}` : `${layer}, heads ${on.join(", ") || "none"}`;
      lines();
    } else {
      extra.replaceChildren(el("label", {}, "Average over ", mean));
      title.textContent = {
        heads: `${layer}, mean of its heads`,
        all: "Mean of all heads and layers",
        rollout: `Rollout up to layer ${value.layer + 1}`,
      }[settings.mean];
      map(
        settings.mean === "all"
          ? meanOfAll
          : matrixOf(settings.mean === "heads" ? averages : rollout, value.layer - value.first),
        MEANS_HINTS[settings.mean],
      );
    }
  }

  return function draw(/** @type {Layer & {error?: string} | null} */ next) {
    if (!next?.tokens) {
      root.replaceChildren(...(next?.error ? [note(next.error, true)] : []));
      return;
    }
    value = { ...next };
    if (!tools.isConnected) root.replaceChildren(tools, extra, title, body, readout, difference);
    weights = unpacked(value.weights);
    averages = unpacked(value.averages);
    rollout = unpacked(value.rollout);
    meanOfAll = unpacked(value.mean);
    show();
  };
}
