// The curves of a run. This module keeps every point, so that a chart that loads late or changes its scale shows
// the earlier ones too. Live points extend the chart, so that zoom and hover survive.

import { toggle } from "../controls.js";
import { el, fill, sized } from "../parts/elements.js";
import { say } from "../frame/page.js";
import { saveMenu, saveText } from "../parts/downloads.js";
import { colour } from "../colours.js";
import { literal, newChart } from "../parts/figures.js";
import { skeleton } from "./panels.js";

const NOTES = /** @type {[text: string, at: number, right: number, down: number][]} */ ([
  ["guessing blindly", 0, 80, -4],
  ["knows how frequent words are", 0.04, 150, 0],
  ["knows the text", 1, -50, -28],
]);
/** With more runs than colours, the curves of some are dotted. @type {Record<string, string>} */
const DOTTED = { solid: "dot", dash: "dashdot" };
const SMOOTHING = 0.02; // time constant of the smoothing, as a fraction of the run's steps
const NARROW = 450; // some notes would stand on each other, or on the curve
const FEW = 200; // points in a zoomed part, of which the page asks for more
const UNIFIED = 8; // runs whose numbers at a step fit into one box
/** Kinds of files that are of the whole run. @type {Record<string, [name: string, hint: string]>} */
const WHOLE = {
  html: ["Report", "a page to read, about the whole run"],
  zip: ["The run", "to continue it later; your own text is not in it"],
};
const [LINE, NAMED] = [22, 230]; // pixels: the height of a line of the legend, about the width of a run's name

/** @typedef {[step: number, ...values: (number | null)[]]} Point step, then the values of `options.series` */
/** @typedef {{name: string, colour: string, isDotted: boolean, steps: number, points: Point[]}} OtherRun */
/** @typedef {{between: (first: number, last: number) => Promise<Point[]>, file: (kind: string) => any}} Actions the points between two steps; to save the numbers or the picture as a file */

/** An exponential mean over steps; it does not depend on how many steps a point stands for. @param {number} steps */
function smoother(steps) {
  const memory = Math.max(2, SMOOTHING * steps);
  let [sum, weight, last] = [0, 0, 0];
  return (/** @type {number | null} */ step, /** @type {number | null} */ value) => {
    if (value === null || step === null) return null;
    const rate = 1 - Math.exp((last - step) / memory);
    last = step;
    sum += rate * (value - sum);
    weight += rate * (1 - weight);
    return sum / weight;
  };
}

export class Curves {
  isLogarithmic = false;
  more = false;
  /** @type {{run: string, steps: number} | null} */
  run = null;
  /** @type {Point[]} */
  points = [];
  /** @type {Point[]} */
  held = [];
  /** Losses to compare with. @type {Record<string, {loss: number, label: string}>} */
  baselines = {};
  /** @type {OtherRun[]} */
  others = [];
  /** @type {number | null} */
  marked = null;
  wasNarrow = false;
  /** @type {Record<string, ReturnType<typeof smoother>>} */
  smoothers = {};
  queue = Promise.resolve();
  flat = el("p.b-empty"); // what the baselines are
  /**
   * `options`: the names of a point's numbers, the points of an example, which is shown before the first run, and the id of
   * the chart. Without `actions` the chart has only the curves of other runs.
   * @param {HTMLElement} root @param {any} options @param {Actions | null} [actions]
   */
  constructor(root, options, actions = null) {
    this.options = options;
    this.actions = actions;
    this.box = /** @type {PlotlyBox} */ (
      el("div.b-chart.b-curves", { id: options.id ?? (actions ? "run-curves" : "other-curves") })
    );
    root.append(el("div.b-curves-frame", this.box, this.flat));
    if (actions) root.append(this.tools(actions));
    this.chart = newChart(
      this.box,
      () => this.drawn(),
      () => this.refine().catch(console.warn),
    );
    this.change({});
    new ResizeObserver(() => {
      if (this.box.clientWidth && this.wasNarrow !== this.isNarrow) this.change({});
    }).observe(this.box);
  }

  /** @param {Actions} actions */
  tools({ file }) {
    const all = (/** @type {boolean} */ more) => {
      this.box.classList.toggle("has-more", more);
      this.change({ more });
    };
    return el(
      "div.b-toolbar",
      toggle("Logarithmic loss", (isLogarithmic) => this.change({ isLogarithmic }), { id: "curves-log" }),
      toggle("More curves", all, { id: "curves-more" }),
      saveMenu({ id: "curves", what: "the run", kinds: ["png", "csv", "json", "html", "zip"], named: WHOLE }, file),
    );
  }

  // Changes of the points are queued too: a chart that is drawn late must not get a point twice.
  /** @param {() => any} work */
  inOrder(work) {
    const done = this.queue.then(work);
    this.queue = done.catch(console.error);
    return done;
  }

  /** Change what is shown, and draw all of it. @param {object} update */
  change(update) {
    this.inOrder(() => {
      Object.assign(this, update);
      // A run is drawn with its first points: to draw an empty chart takes longer than they take to come.
      return this.run && this.points.length === 0 ? null : this.show();
    });
  }

  show() {
    const names = this.baselineNames.map((name, k) => [k > 0 && " · ", el("span", name)]);
    this.box.classList.remove("is-empty");
    fill(this.flat, names.length > 0 && ["Flat lines: ", names]);
    return this.chart.show();
  }

  /** What the losses are to compare with. */
  get baselineNames() {
    return Object.values(this.baselines).map(({ label }) => label);
  }

  /** @param {{run: string, steps: number} | null} run null for none */
  begin(run) {
    this.inOrder(() => {
      delete this.box.dataset.points;
      this.box.classList.add("is-empty");
    });
    this.change({ run, points: [], held: [], baselines: {}, marked: null });
  }

  /** Drop the points; all of them come again. */
  restart() {
    this.change({ points: [] });
  }

  /** @param {Point[]} fresh */
  add(fresh) {
    if (!fresh.length) return;
    this.inOrder(() => {
      const wasDot = this.points.length < 2;
      this.points.push(...fresh);
      this.box.dataset.points = `${this.points.length}`;
      if (wasDot) return this.show();
      const { data } = this.figure,
        isGrowing = ({ kind }) => kind === "line" || kind === "raw",
        growing = [...data.keys()].filter((index) => isGrowing(data[index].meta)),
        parts = growing.map((index) => this.part(data[index].meta, fresh));
      return this.chart.extend({ x: parts.map(([x]) => x), y: parts.map(([, y]) => y) }, growing);
    });
  }

  /** Points on held-out text. @param {Point[]} fresh */
  hold(fresh) {
    this.inOrder(() => this.held.push(...fresh));
    this.change({});
  }

  /** A vertical line at a step; none for null. @param {number | null} step */
  mark(step) {
    this.inOrder(() => {
      this.marked = step;
      return this.chart.relayout({ shapes: this.shapes() });
    });
  }

  get figure() {
    return skeleton(this.options.series, this.more);
  }

  /** The steps that a person has zoomed to, null for all. */
  get zoom() {
    const [first, last] = this.box.layout?.xaxis?.range ?? [0, 0];
    return this.run && last - first < this.end - 1 ? [Math.floor(first), Math.ceil(last)] : null;
  }

  /** The last step on the axis. */
  get end() {
    const { run, others, options } = this;
    return this.isExample ? options.example.at(-1)[0] : Math.max(1, run?.steps ?? 0, ...others.map((of) => of.steps));
  }

  /** More points of the steps to which a person has zoomed: of a long run, the others are means over many steps. */
  async refine() {
    const { run, zoom, actions } = this;
    if (!run || !zoom || !actions) return;
    const [first, last] = zoom,
      isInside = (/** @type {Point} */ [step]) => step >= first && step <= last,
      known = this.points.filter(isInside).length;
    if (known >= Math.min(FEW, last - first, (this.points.at(-1)?.[0] ?? 0) - first)) return;
    const fresh = await actions.between(first, last);
    if (run !== this.run || fresh.length <= known) return;
    this.inOrder(() => {
      this.points = [...this.points.filter((point) => !isInside(point)), ...fresh].sort(
        ([one], [other]) => one - other,
      );
      this.box.dataset.points = `${this.points.length}`;
      return this.show();
    });
  }

  /** Before the first run the chart shows an example. */
  get isExample() {
    return !this.run && this.actions !== null;
  }

  get isNarrow() {
    return this.box.clientWidth < NARROW;
  }

  /** @param {string} series */
  column(series) {
    return this.options.series.indexOf(series) + 1;
  }

  /** What a trace shows of some points: [x, y]. @param {any} meta @param {Point[]} fresh */
  part({ series, kind, smoothed }, fresh) {
    const { run, held, baselines } = this;
    if (this.isExample) fresh = this.options.example;
    if (kind === "baseline") {
      return run && baselines[series] ? [[0, run.steps], Array(2).fill(baselines[series].loss)] : [[], []];
    }
    const column = this.column(series),
      source = kind === "held" ? held : fresh;
    if (smoothed) this.smoothers[series] ||= smoother(run?.steps ?? 100);
    const smooth = smoothed ? this.smoothers[series] : (_, value) => value;
    return [source.map(([step]) => step), source.map((point) => smooth(point[0], point[column] ?? null))];
  }

  /** The curves of other runs, each run in one colour. @param {any[]} data the traces of the shown one */
  overlaid(data) {
    const own = data.filter(({ meta }) => meta.smoothed),
      steps = Math.min(...this.others.map((other) => other.steps)); // one smoothing for all, else a longer run seems slower
    return this.others.flatMap(({ name, colour, isDotted, points }) =>
      own.map((trace) => {
        const { series } = trace.meta,
          column = this.column(series),
          smooth = smoother(steps),
          dash = isDotted ? DOTTED[trace.line.dash] : trace.line.dash;
        return {
          ...trace,
          x: points.map(([step]) => step),
          y: points.map((point) => smooth(point[0], point[column])),
          name: literal(name),
          meta: { series, kind: "other" },
          line: { ...trace.line, color: colour, width: 1.5, dash },
          hovertemplate: `${literal(name)} ${trace.hovertemplate}`,
          legendgroup: name,
          showlegend: series === "mlm_loss",
        };
      }),
    );
  }

  shapes() {
    const { marked } = this,
      line = { color: colour("curve-other"), width: 1 };
    return marked === null ? [] : [{ type: "line", yref: "paper", x0: marked, x1: marked, y0: 0, y1: 1, line }];
  }

  /** What the example's MLM loss means: at its start, in its middle, at its end. */
  notes() {
    const { example } = this.options,
      font = this.isNarrow ? { size: sized(11) } : {},
      look = { showarrow: true, arrowhead: 0, arrowcolor: colour("curve-other"), font };
    return NOTES.filter((_, index) => index !== 1 || !this.isNarrow).map(([text, at, ax, ay]) => {
      const [x, y] = example[Math.round(at * (example.length - 1))];
      return { ...look, x, y, text, ax, ay };
    });
  }

  drawn() {
    const { run, held, others, isExample, isNarrow, isLogarithmic } = this,
      { data, layout } = this.figure;
    this.smoothers = {};
    for (const trace of data) {
      const { kind } = trace.meta,
        [x, y] = this.part(trace.meta, this.points);
      // An empty curve is missing in the legend, which would grow with the first point and push the chart down.
      Object.assign(trace, kind === "line" ? { x: [0, ...x], y: [null, ...y] } : { x, y });
      if (isExample) trace.opacity = kind === "raw" ? 0 : document.body.matches(".dark") ? 0.9 : 0.45;
      if (kind === "held") trace.visible = held.length > 0;
      if (trace.meta.smoothed) trace.hovertemplate = trace.hovertemplate.replace("<extra>", ", smoothed<extra>");
      // Of other runs alone, the colour tells the run, and the legend names what a dashed line is.
      if (others.length && !run) trace.line = { ...trace.line, color: colour("curve-other") };
    }
    data.push(...this.overlaid(data));
    // A line needs two points.
    for (const trace of data)
      if (trace.y.filter((/** @type {number | null} */ value) => value !== null).length === 1)
        trace.mode = "lines+markers";
    // The axis has the length of the whole run from the start, so that nothing jumps while the curve grows.
    for (const name of Object.keys(layout)) {
      if (name.startsWith("xaxis")) Object.assign(layout[name], { range: [0, this.end], autorange: false });
    }
    if (others.length > UNIFIED) layout.hovermode = "closest";
    // The names of runs take the legend more than one line.
    if (others.length)
      layout.margin.t += LINE * Math.floor((others.length + 1) / Math.max(1, this.box.clientWidth / NAMED));
    layout.uirevision = run?.run ?? "none";
    for (const axis of layout.meta.logarithmic) {
      layout[axis].uirevision = `${layout.uirevision} ${isLogarithmic}`;
      if (isLogarithmic) Object.assign(layout[axis], { type: "log", rangemode: "normal", nticks: 4 });
    }
    Object.assign(layout, { shapes: this.shapes(), annotations: isExample ? this.notes() : [] });
    this.wasNarrow = isNarrow;
    if (isNarrow) {
      for (const trace of data.filter(({ meta }) => meta.kind !== "other"))
        trace.name = /\((\w+)\)/.exec(trace.name)?.[1] ?? trace.name; // a legend of one line
    }
    return { data, layout };
  }

  /** Save the numbers or the picture. @param {string} kind @param {any} answer of the server */
  save(kind, { name, content, title, error }) {
    if (error) say(error);
    else if (title) this.picture(title, name).catch(({ message }) => say(message));
    else saveText(content, `${name}.${kind}`);
  }

  /** @param {string} text @param {string} filename without its ending */
  picture(text, filename) {
    const size = { width: 1000, height: this.more ? 900 : 560, scale: 2 };
    const below = this.baselineNames.length > 0 ? `<br><sup>Flat lines: ${this.baselineNames.join(" · ")}</sup>` : "",
      title = { text: literal(text) + below, font: { size: 15 }, x: 0, xref: "paper", y: 0.985, yanchor: "top" };
    return this.inOrder(async () => {
      await this.chart.show(); // or the reason why there is none
      const { data, layout } = this.box,
        font = { ...layout.font, color: "#475569" },
        margin = { ...layout.margin, t: layout.margin.t + 42 }; // for the title
      const light = { ...layout, paper_bgcolor: "white", font, margin, title };
      return window.Plotly.downloadImage({ data, layout: light }, { format: "png", filename, ...size });
    });
  }
}
