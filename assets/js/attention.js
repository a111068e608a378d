// One layer of attention close up: a head as a map of words, heads as lines between words, and averages over heads.
(function (Balcony) {
  "use strict";
  const { el, heads } = Balcony;
  const { shared } = heads;
  const SVG = "http://www.w3.org/2000/svg";
  const MODES = { map: "One head", lines: "Lines", average: "Average" };
  const FILTERS = { all: "all words", "0.0": "A → A", "0.1": "A → B", "1.0": "B → A", "1.1": "B → B" };
  const MEANS = { heads: "the heads of the layer", all: "all heads and layers", rollout: "rollout up to the layer" };
  const MEANS_HINTS = {
    heads: "The mean over the heads of this layer.", all: "The mean over all heads of all layers.",
    rollout: "How much of each word reaches each place by way of all layers up to this one, when half of every layer passes it by " +
      "(Abnar & Zuidema 2020).",
  };
  const LETTERS = 14;
  const BUCKETS = 8; // widths of lines: a few paths instead of thousands
  const LINES_FROM = 0.02;
  const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/;

  const colourOf = (head) => `hsl(${(174 + 137.5 * head) % 360} 58% 44%)`;
  const number = (weight) => (weight > 0 && weight < 0.0005 ? "<0.001" : weight.toFixed(3));
  const short = (word) => { const letters = [...word]; return letters.length > LETTERS ? `${letters.slice(0, LETTERS - 1).join("")}…` : word; };

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** Shares of 1 from bytes: two for each weight, 65535 standing for 1. */
  function shares(text) {
    const whole = new Uint16Array(heads.bytesOf(text).buffer);
    return Float32Array.from(whole, (weight) => weight / 65535);
  }

  /** A word in an SVG, `end` telling which side of it lies at x; letters that run leftward keep their order. */
  function label(word, x, y, size, end, turn) {
    const leftward = RIGHT_TO_LEFT.test(word);
    const text = svg("text", { x, y, "font-size": size, direction: leftward ? "rtl" : "ltr",
      "text-anchor": (end === "right") === leftward ? "start" : "end", class: "balcony-map-word",
      ...(turn ? { transform: `rotate(-90 ${x} ${y})` } : {}) });
    text.textContent = short(word);
    text.append(svg("title", {}));
    text.lastChild.textContent = word;
    return text;
  }

  function cellsOf(matrix, n, side, [red, green, blue]) {
    const canvas = el("canvas", { width: n * side, height: n * side });
    const pen = canvas.getContext("2d");
    const gap = side > 5 ? 1 : 0;
    matrix.forEach((weight, index) => {
      pen.fillStyle = `rgba(${red}, ${green}, ${blue}, ${weight < shared.threshold ? 0 : Math.max(0.03, Math.sqrt(weight))})`;
      pen.fillRect((index % n) * side, Math.floor(index / n) * side, side - gap, side - gap);
    });
    return canvas.toDataURL();
  }

  Balcony.views.headDetail = function (root, { options }) {
    const tabs = Object.entries(MODES).map(([mode, text]) => {
      const tab = el("button", { type: "button", role: "tab", class: "balcony-small", "data-mode": mode }, text);
      tab.addEventListener("click", () => heads.change({ mode }));
      return tab;
    });
    const tablist = el("div", { role: "tablist", "aria-label": "How attention is drawn", class: "balcony-tools" }, ...tabs);
    Balcony.roam(tablist);
    const under = el("output", {});
    const threshold = el("input", { type: "range", min: "0", max: "0.5", step: "0.01", "aria-label": "Hide weights under" });
    threshold.addEventListener("input", () => heads.change({ threshold: Number(threshold.value) }));
    const choice = (name, texts, key) => {
      const select = el("select", { "aria-label": name },
        ...Object.entries(texts).map(([value, text]) => el("option", { value }, text)));
      select.addEventListener("change", () => heads.change({ [key]: select.value }));
      return select;
    };
    const filter = choice("Lines between", FILTERS, "filter"), mean = choice("Average over", MEANS, "mean");
    const chips = el("div", { class: "balcony-tools", role: "group", "aria-label": "Heads that are drawn",
      title: "Press a head to show or hide it; double-click it, or press it with Shift, to see it alone" });
    const extra = el("div", { class: "balcony-tools balcony-extra", "data-no-picture": "" });
    const tools = el("div", { class: "balcony-tools", "data-no-picture": "" }, tablist,
      el("label", { class: "balcony-threshold" }, "Hide weights under ", threshold, under));
    const title = el("h3", { class: "balcony-map-title" }), readout = el("p", { class: "balcony-readout", "aria-live": "polite" });
    const body = el("div", { class: "balcony-attention", role: "tabpanel", tabindex: "-1" });
    let value = null, layer = null, averages = null, rollout = null, pinned = null, width = 0;

    heads.listen(root, () => {
      if (!value) return;
      // A head of the layer that is here needs no answer from the server.
      if (shared.picked[0] === value.layer && shared.picked[1] < value.heads) value.head = shared.picked[1];
      show();
    });
    new ResizeObserver(() => { if (value && body.clientWidth && body.clientWidth !== width) show(); }).observe(body);

    const active = () => new Set([...(shared.active || [value.head])].filter((head) => head < value.heads));
    const matrixOf = (all, index) => all.subarray(index * value.tokens.length ** 2, (index + 1) * value.tokens.length ** 2);

    // --- a map -------------------------------------------------------------------------------------------------------

    function map(matrix) {
      const { tokens, segments } = value, n = tokens.length;
      const longest = Math.max(...tokens.map((token) => [...short(token)].length));
      const room = body.clientWidth || 600;
      const guess = Math.max(9, Math.min(32, (room - 80) / n));
      const letters = Math.max(8, Math.min(13, guess * 0.95));
      const edge = Math.min(120, 12 + longest * letters * 0.62);
      const side = Math.max(9, Math.min(32, (room - edge - 4) / n));
      const span = n * side, W = edge + span + 4, H = edge + span + 4;
      const mark = svg("rect", { width: side, height: side, class: "balcony-map-mark", visibility: "hidden" });
      const row = svg("rect", { x: edge, width: span, height: side, class: "balcony-map-line", visibility: "hidden" });
      const column = svg("rect", { y: edge, width: side, height: span, class: "balcony-map-line", visibility: "hidden" });
      const picture = svg("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}` },
        svg("image", { x: edge, y: edge, width: span, height: span, href: cellsOf(matrix, n, Math.round(side * 2), options.colour),
          preserveAspectRatio: "none" }),
        ...tokens.map((token, i) => label(token, edge - 5, edge + (i + 0.5) * side + letters * 0.35, letters, "right")),
        ...tokens.map((token, i) => label(token, edge + (i + 0.5) * side + letters * 0.35, edge - 5, letters, "left", true)));
      const border = segments.indexOf(1);
      if (border > 0) {
        picture.append(svg("path", { d: `M${edge} ${edge + border * side}h${span}M${edge + border * side} ${edge}v${span}`, class: "balcony-map-border" }));
      }
      picture.append(row, column, mark);
      const frame = el("div", { class: "balcony-map", tabindex: "0", role: "application",
        "aria-label": "Attention map; the arrow keys go from cell to cell" }, picture);
      let at = null;

      function point(i, j) {
        at = [i, j];
        for (const part of [mark, row, column]) part.setAttribute("visibility", "visible");
        for (const [part, name, place] of [[mark, "x", j], [mark, "y", i], [row, "y", i], [column, "x", j]]) {
          part.setAttribute(name, edge + place * side);
        }
        readout.replaceChildren(el("bdi", {}, tokens[i]), " → ", el("bdi", {}, tokens[j]), `: ${number(matrix[i * n + j])}`);
      }

      frame.addEventListener("pointermove", (event) => {
        const box = picture.getBoundingClientRect();
        const j = Math.floor((event.clientX - box.left - edge) / side), i = Math.floor((event.clientY - box.top - edge) / side);
        if (i >= 0 && j >= 0 && i < n && j < n) point(i, j);
      });
      frame.addEventListener("keydown", (event) => {
        const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
        if (!step) return;
        event.preventDefault();
        const [i, j] = at ? [at[0] + step[0], at[1] + step[1]] : [0, 0];
        if (i >= 0 && j >= 0 && i < n && j < n) point(i, j);
      });
      body.replaceChildren(frame);
      readout.textContent = "A row is a word that looks; point at a cell to read the weight.";
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
        Balcony.roam(list, 1);
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
      heads.change({ active: now });
    }

    function drawChips() {
      const on = active();
      if (chips.children.length !== value.heads + 1) {
        const every = el("button", { type: "button", class: "balcony-small" }, "All");
        every.addEventListener("click", () => heads.change({ active: new Set(Array.from({ length: value.heads }, (_, head) => head)) }));
        chips.replaceChildren(every, ...Array.from({ length: value.heads }, (_, head) => {
          const chip = el("button", { type: "button", class: "balcony-chip", "aria-label": `Head ${head + 1}` }, `${head + 1}`);
          chip.style.setProperty("--chip", colourOf(head));
          chip.addEventListener("click", (event) => toggle(head, event.shiftKey));
          chip.addEventListener("dblclick", () => toggle(head, true));
          return chip;
        }));
        Balcony.roam(chips);
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
      const place = `Layer ${value.layer + 1}`, n = value.tokens.length;
      if (shared.mode === "map") {
        extra.replaceChildren();
        title.textContent = `${place}, head ${value.head + 1}`;
        map(matrixOf(layer, value.head));
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
        map(shared.mean === "all" ? all : matrixOf(shared.mean === "heads" ? averages : rollout, value.layer));
        readout.textContent = MEANS_HINTS[shared.mean];
      }
    }

    return function draw(next) {
      value = next && next.tokens ? { ...next } : null;
      if (!value) { root.replaceChildren(); return; }
      if (!tools.isConnected) root.replaceChildren(tools, extra, title, body, readout);
      layer = shares(value.weights);
      averages = shares(value.averages);
      rollout = shares(value.rollout);
      show();
    };
  };
})(window.Balcony);
