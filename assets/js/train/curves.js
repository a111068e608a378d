// The curves of a run. Every point is kept here, so that a chart that loads late, is smoothed or drawn on another
// scale shows what came before; live points are added without drawing the chart anew, so zoom and hover survive.

import { el } from "../parts/elements.js";
import { newChart } from "../parts/plotly_view.js";

const SMOOTH_SHARE = 0.02; // of the run's steps: how far back a smoothed point remembers

/** @typedef {(number | null)[]} Point step, then the values of `options.series` */
/** @typedef {{number: number, colour: string, steps: number, points: Point[]}} OtherRun */

/** An exponential mean over steps, so that it does not matter how many steps a point stands for. */
function smoother(steps) {
  const memory = Math.max(2, SMOOTH_SHARE * steps);
  let sum = 0;
  let weight = 0;
  let last = 0;
  return (step, value) => {
    if (value === null) return null;
    const share = 1 - Math.exp((last - step) / memory);
    last = step;
    sum += share * (value - sum);
    weight += share * (1 - weight);
    return sum / weight;
  };
}

function toggle(label, id, checked, change) {
  const box = el("input", { type: "checkbox", id });
  box.checked = checked;
  box.addEventListener("change", () => change(box.checked));
  return el("label", { class: "balcony-toggle" }, box, label);
}

/**
 * `options`: the figures without and with more curves, and the names of a point's numbers. `actions`: `more(is)`
 * when more curves are wanted or not, `file(kind)` when the numbers are wanted as a file.
 */
export function curves(root, options, actions) {
  const view = { smooth: true, log: false, more: false };
  // Plotly adds the figure to the element that it draws in.
  const box = /** @type {HTMLDivElement & import("../parts/plotly_view.js").Figure} */ (
    el("div", { class: "balcony-chart balcony-curves", id: "run-curves" }));
  const button = (kind) => {
    const item = el("button", { type: "button", class: "balcony-small-button", id: `curves-${kind}` }, kind.toUpperCase());
    item.addEventListener("click", () => (kind === "png" ? picture() : actions.file(kind)));
    return item;
  };
  root.append(box, el("div", { class: "balcony-toolbar" },
    toggle("Smoothed", "curves-smooth", view.smooth, (is) => whole(() => { view.smooth = is; })),
    toggle("Logarithmic loss", "curves-log", view.log, (is) => whole(() => { view.log = is; })),
    toggle("More curves", "curves-more", view.more, (is) => {
      view.more = is;
      box.classList.toggle("has-more", is);
      restart();
      actions.more(is);
    }),
    el("span", { class: "balcony-files" }, "Save as", ...["png", "csv", "json"].map(button))));
  const chart = newChart(box);
  /** @type {{run: string, steps: number} | null} */
  let run = null;
  /** @type {Point[]} */
  let points = [];
  /** @type {Point[]} */
  let held = [];
  /** @type {Record<string, number>} */
  let levels = {};
  /** @type {OtherRun[]} */
  let others = [];
  /** @type {number | null} */
  let marked = null;
  /** @type {Record<string, ReturnType<typeof smoother>>} */
  let smoothers = {};
  let queue = Promise.resolve();
  const inOrder = (work) => { queue = queue.then(work).catch(console.error); };
  const figure = () => options.figures[view.more ? 1 : 0];

  /** What a trace shows of some points: [x, y]. */
  function part({ series, kind }, fresh) {
    if (kind === "reference") return run && levels[series] ? [[0, run.steps], [levels[series], levels[series]]] : [[], []];
    const column = options.series.indexOf(series) + 1;
    const source = kind === "held" ? held : kind === "raw" && !view.smooth ? [] : fresh;
    const isSmooth = kind === "line" && view.smooth && column <= 4;
    if (isSmooth) smoothers[series] ||= smoother(run ? run.steps : 100);
    const value = (point) => point[column] ?? null;
    return [
      source.map((point) => point[0]),
      source.map((point) => (isSmooth ? smoothers[series](point[0], value(point)) : value(point))),
    ];
  }

  /** The curves of other runs as this figure shows a run's own, each run in one colour. */
  function overlaid() {
    const own = figure().data.filter(({ meta }) => meta.kind === "line" && options.series.indexOf(meta.series) < 4);
    return others.flatMap(({ number, colour, steps, points: other }) => own.map((trace) => {
      const column = options.series.indexOf(trace.meta.series) + 1;
      const smooth = view.smooth ? smoother(steps) : (step, value) => value;
      return {
        ...trace,
        x: other.map((point) => point[0]),
        y: other.map((point) => smooth(point[0], point[column])),
        name: `Run ${number}`,
        meta: { series: trace.meta.series, kind: "other" },
        line: { ...trace.line, color: colour, width: 1.5 },
        hovertemplate: `Run ${number} ${trace.hovertemplate}`,
        legendgroup: `run ${number}`,
        showlegend: false,
      };
    }));
  }

  function shapes() {
    if (marked === null) return [];
    return [{ type: "line", xref: "x", yref: "paper", x0: marked, x1: marked, y0: 0, y1: 1, line: { color: "#7c8594", width: 1 } }];
  }

  function drawn() {
    const { data, layout } = structuredClone(figure());
    smoothers = {};
    for (const trace of data) {
      const [x, y] = part(trace.meta, points);
      // A curve without any point has no place in the legend, which would come later and push the chart down.
      Object.assign(trace, trace.meta.kind === "line" ? { x: [0, ...x], y: [null, ...y] } : { x, y });
      if (trace.meta.kind === "held") trace.visible = held.length > 0;
    }
    data.push(...overlaid());
    if (run) {
      // The axis is as long as the run from the start: the curve grows into it and nothing jumps.
      const end = Math.max(run.steps, ...others.map(({ steps }) => steps));
      const axes = Object.keys(layout).filter((name) => name.startsWith("xaxis"));
      for (const axis of axes) Object.assign(layout[axis], { range: [0, end], autorange: false });
    }
    if (view.log) for (const axis of layout.meta.logarithmic) Object.assign(layout[axis], { type: "log", rangemode: "normal", nticks: 4 });
    layout.uirevision = run ? run.run : "none";
    for (const axis of layout.meta.logarithmic) layout[axis].uirevision = `${layout.uirevision} ${view.log}`;
    layout.shapes = shapes();
    return { data, layout };
  }

  // What changes the points waits for its turn too: a chart that is drawn late must not see a point twice.
  const whole = (change = () => {}) => inOrder(() => { change(); return chart.show(drawn()); });
  const restart = () => whole(() => { points = []; });

  function picture() {
    const background = getComputedStyle(document.body).backgroundColor;
    // On the page the list below says which run has which colour.
    const named = (trace) => (trace.meta.kind === "other" && trace.meta.series === "mlm_loss" ? { ...trace, showlegend: true } : trace);
    inOrder(() => window.Plotly.downloadImage(
      { data: box.data.map(named), layout: { ...box.layout, paper_bgcolor: background } },
      { format: "png", filename: "curves", width: 1000, height: view.more ? 900 : 560, scale: 2 }));
  }

  whole();
  return {
    get more() { return view.more; },
    get size() { return points.length; },
    begin(next) {
      whole(() => {
        run = next;
        points = [];
        held = [];
        levels = {};
        marked = null;
        delete box.dataset.points;
      });
    },
    /** The points from the start on come anew. */
    restart,
    add(fresh) {
      if (!fresh.length) return;
      inOrder(() => {
        points.push(...fresh);
        box.dataset.points = `${points.length}`;
        const changed = figure().data.map((trace, index) => ({ index, meta: trace.meta }))
          .filter(({ meta }) => meta.kind === "line" || (meta.kind === "raw" && view.smooth));
        const parts = changed.map(({ meta }) => part(meta, fresh));
        return chart.extend({ x: parts.map(([x]) => x), y: parts.map(([, y]) => y) }, changed.map(({ index }) => index));
      });
    },
    hold(fresh) { whole(() => held.push(...fresh)); },
    /** Other runs to lie over this one: [{number, colour, steps, points}]. */
    overlay(next) { whole(() => { others = next; }); },
    setLevels(next) { whole(() => { levels = next; }); },
    /** A vertical line at a step; none for null. */
    mark(step) { inOrder(() => { marked = step; return chart.relayout({ shapes: shapes() }); }); },
  };
}
