// The curves of a run. This module keeps every point, so that a chart that loads late, is smoothed or changes its scale
// shows the earlier ones too. Live points extend the chart, so that zoom and hover survive.

import { el } from "../parts/elements.js";
import { saveMenu } from "../parts/downloads.js";
import { loadPlotly, newChart } from "../parts/figures.js";

const NOTES = /** @type {[text: string, at: number, right: number, down: number][]} */ ([
  ["guessing blindly", 0, 80, -4],
  ["knows how frequent words are", 0.04, 150, 0],
  ["knows the text", 1, -50, -28],
]);
/** With more runs than colours, the curves of some are dotted. @type {Record<string, string>} */
const DOTTED = { solid: "dot", dash: "dashdot" };
const SMOOTHING = 0.02; // time constant of the smoothing, as a fraction of the run's steps

/** @typedef {(number | null)[]} Point step, then the values of `options.series` */
/** @typedef {{name: string, colour: string, isDotted: boolean, steps: number, points: Point[]}} OtherRun */

/** An exponential mean over steps; it does not depend on how many steps a point stands for. */
function smoother(steps) {
  const memory = Math.max(2, SMOOTHING * steps);
  let sum = 0;
  let weight = 0;
  let last = 0;
  return (step, value) => {
    if (value === null) return null;
    const rate = 1 - Math.exp((last - step) / memory);
    last = step;
    sum += rate * (value - sum);
    weight += rate * (1 - weight);
    return sum / weight;
  };
}

function toggle(label, id, checked, change) {
  const box = el("input", { type: "checkbox", id });
  box.checked = checked;
  box.addEventListener("change", () => change(box.checked));
  return el("label", { class: "b-toggle" }, box, label);
}

/** Text that Plotly shows as it is. @param {string} text */
const literal = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll("$", "$\u200b");

/**
 * `options`: the figures without and with more curves, the names of a point's numbers, and the points of an example,
 * which is shown before the first run, and the id of the chart. `actions`: `more(is)` after the toggle "More curves", `file(kind)` to save the
 * numbers as a file or, with the title of a picture, `picture`; without them the chart has only the curves of other runs.
 * @param {{more: (is: boolean) => void, file: (kind: any) => any} | null} [actions]
 */
export function curves(root, options, actions = null) {
  const view = { smooth: true, log: false, more: false };
  // Plotly adds the figure to the element that it draws in.
  const box = /** @type {HTMLDivElement & import("../parts/figures.js").Figure} */ (
    el("div", { class: "b-chart b-curves", id: options.id ?? (actions ? "run-curves" : "other-curves") })
  );
  root.append(box);
  if (actions)
    root.append(
      el(
        "div",
        { class: "b-toolbar" },
        toggle("Smoothed", "curves-smooth", view.smooth, (is) =>
          whole(() => {
            view.smooth = is;
          }),
        ),
        toggle("Logarithmic loss", "curves-log", view.log, (is) =>
          whole(() => {
            view.log = is;
          }),
        ),
        toggle("More curves", "curves-more", view.more, (is) => {
          view.more = is;
          box.classList.toggle("has-more", is);
          restart();
          actions.more(is);
        }),
        saveMenu({ id: "curves", what: "the curves", kinds: ["png", "svg", "csv", "json"] }, actions.file),
      ),
    );
  const chart = newChart(box);
  /** @type {{run: string, steps: number} | null} */
  let run = null;
  /** @type {Point[]} */
  let points = [];
  /** @type {Point[]} */
  let held = [];
  /** @type {Record<string, {loss: number, label: string}>} */
  let baselines = {};
  /** @type {OtherRun[]} */
  let others = [];
  /** @type {number | null} */
  let marked = null;
  /** @type {Record<string, ReturnType<typeof smoother>>} */
  let smoothers = {};
  let queue = Promise.resolve();
  const inOrder = (work) => {
    queue = queue.then(work).catch(console.error);
  };
  const figure = () => options.figures[view.more ? 1 : 0];
  const isExample = () => !run && Boolean(actions);
  const isNarrow = () => box.clientWidth < 450; // some notes would stand on each other, or on the curve

  /** What a trace shows of some points: [x, y]. */
  function part({ series, kind, smoothed }, fresh) {
    if (isExample()) fresh = options.example;
    if (kind === "baseline")
      return run && baselines[series] ? [[0, run.steps], Array(2).fill(baselines[series].loss)] : [[], []];
    const column = options.series.indexOf(series) + 1;
    const source = kind === "held" ? held : kind === "raw" && !view.smooth ? [] : fresh;
    const isSmooth = smoothed && view.smooth;
    if (isSmooth) smoothers[series] ||= smoother(run ? run.steps : 100);
    const value = (point) => point[column] ?? null;
    return [
      source.map((point) => point[0]),
      source.map((point) => (isSmooth ? smoothers[series](point[0], value(point)) : value(point))),
    ];
  }

  /** The curves of other runs, each run in one colour. */
  function overlaid() {
    const own = figure().data.filter(({ meta }) => meta.smoothed);
    return others.flatMap(({ name, colour, isDotted, steps, points: other }) =>
      own.map((trace) => {
        const column = options.series.indexOf(trace.meta.series) + 1;
        const smooth = view.smooth ? smoother(steps) : (step, value) => value;
        return {
          ...trace,
          x: other.map((point) => point[0]),
          y: other.map((point) => smooth(point[0], point[column])),
          name,
          meta: { series: trace.meta.series, kind: "other" },
          line: {
            ...trace.line,
            color: colour,
            width: 1.5,
            dash: isDotted ? DOTTED[trace.line.dash] : trace.line.dash,
          },
          hovertemplate: `${name} ${trace.hovertemplate}`,
          legendgroup: name,
          showlegend: false,
        };
      }),
    );
  }

  function shapes() {
    if (marked === null) return [];
    return [
      {
        type: "line",
        xref: "x",
        yref: "paper",
        x0: marked,
        x1: marked,
        y0: 0,
        y1: 1,
        line: { color: "#7c8594", width: 1 },
      },
    ];
  }

  /** The names of the baselines, on the background of the page (in the style sheet), so that no line crosses the letters. */
  function labels() {
    return figure()
      .data.filter(({ meta }) => meta.kind === "baseline" && baselines[meta.series])
      .map(({ meta }) => {
        const { loss, label } = baselines[meta.series];
        return {
          text: label,
          xref: "paper",
          x: 1,
          xanchor: "right",
          y: view.log ? Math.log10(loss) : loss,
          yanchor: meta.side,
          yshift: meta.side === "top" ? -2 : 2,
          borderpad: 0,
          showarrow: false,
          bgcolor: "white",
        };
      });
  }

  /** What the example's MLM loss means: at its start, in its middle, at its end. */
  function notes() {
    const { example } = options,
      last = example.length - 1;
    return NOTES.filter((_, index) => index !== 1 || !isNarrow()).map(([text, at, right, down]) => {
      const [step, loss] = example[Math.round(at * last)];
      return {
        x: step,
        y: loss,
        text,
        showarrow: true,
        arrowhead: 0,
        ax: right,
        ay: down,
        arrowcolor: "#7c8594",
        font: { size: 13 },
      };
    });
  }

  function drawn() {
    const { data, layout } = structuredClone(figure());
    smoothers = {};
    for (const trace of data) {
      const [x, y] = part(trace.meta, points);
      // An empty curve is missing in the legend, which would grow with the first point and push the chart down.
      Object.assign(trace, trace.meta.kind === "line" ? { x: [0, ...x], y: [null, ...y] } : { x, y });
      if (isExample()) trace.opacity = trace.meta.kind === "raw" ? 0 : document.body.matches(".dark") ? 0.9 : 0.45;
      if (trace.meta.kind === "held") trace.visible = held.length > 0;
    }
    data.push(...overlaid());
    // The axis has the length of the whole run from the start, so that nothing jumps while the curve grows.
    const end = isExample()
      ? options.example.at(-1)[0]
      : Math.max(1, run?.steps ?? 0, ...others.map(({ steps }) => steps));
    const axes = Object.keys(layout).filter((name) => name.startsWith("xaxis"));
    for (const axis of axes) Object.assign(layout[axis], { range: [0, end], autorange: false });
    layout.uirevision = run ? run.run : "none";
    for (const axis of layout.meta.logarithmic) {
      layout[axis].uirevision = `${layout.uirevision} ${view.log}`;
      if (view.log) Object.assign(layout[axis], { type: "log", rangemode: "normal", nticks: 4 });
    }
    Object.assign(layout, { shapes: shapes(), annotations: isExample() ? notes() : labels() });
    if (isNarrow()) {
      for (const trace of data) trace.name = /\((\w+)\)/.exec(trace.name)?.[1] ?? trace.name; // a legend of one line
      for (const label of layout.annotations) label.font = { size: 11 };
    }
    return { data, layout };
  }

  // Changes of the points are queued too: a chart that is drawn late must not get a point twice.
  const whole = (change = () => {}) =>
    inOrder(() => {
      change();
      return chart.show(drawn());
    });
  const restart = () =>
    whole(() => {
      points = [];
    });

  /** @param {string} kind @param {string} title */
  function picture(kind, title) {
    // The page lists the runs with their colours below the chart; the picture needs them in its legend.
    const named = (trace) =>
      trace.meta.kind === "other" && trace.meta.series === "mlm_loss" ? { ...trace, showlegend: true } : trace;
    inOrder(async () =>
      (await loadPlotly()).downloadImage(
        {
          data: box.data.map(named),
          layout: {
            ...box.layout,
            paper_bgcolor: "white",
            font: { ...box.layout.font, color: "#475569" },
            margin: { ...box.layout.margin, t: 76 },
            title: { text: literal(title), font: { size: 15 }, x: 0, xref: "paper", y: 0.985, yanchor: "top" },
          },
        },
        { format: kind, filename: "curves", width: 1000, height: view.more ? 900 : 560, scale: kind === "png" ? 2 : 1 },
      ),
    );
  }

  whole();
  return {
    /** Call with all points, after those that are queued. */
    whenDrawn(work) {
      inOrder(() => work(points));
    },
    get more() {
      return view.more;
    },
    get size() {
      return points.length;
    },
    begin(next) {
      whole(() => {
        run = next;
        points = [];
        held = [];
        baselines = {};
        marked = null;
        delete box.dataset.points;
      });
    },
    /** Drop the points; all of them come again. */
    restart,
    picture,
    add(fresh) {
      if (!fresh.length) return;
      inOrder(() => {
        points.push(...fresh);
        box.dataset.points = `${points.length}`;
        const changed = figure()
          .data.map((trace, index) => ({ index, meta: trace.meta }))
          .filter(({ meta }) => meta.kind === "line" || (meta.kind === "raw" && view.smooth));
        const parts = changed.map(({ meta }) => part(meta, fresh));
        return chart.extend(
          { x: parts.map(([x]) => x), y: parts.map(([, y]) => y) },
          changed.map(({ index }) => index),
        );
      });
    },
    hold(fresh) {
      whole(() => held.push(...fresh));
    },
    /** Other runs, drawn over this one: [{number, colour, steps, points}]. */
    overlay(next) {
      whole(() => {
        others = next;
      });
    },
    /** Losses to compare with: {name: {loss, label}}. */
    setBaselines(next) {
      whole(() => {
        baselines = next;
      });
    },
    /** A vertical line at a step; none for null. */
    mark(step) {
      inOrder(() => {
        marked = step;
        return chart.relayout({ shapes: shapes() });
      });
    },
  };
}
