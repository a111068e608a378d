// The curves of a run, or of several beside each other. A change draws all of it anew; zoom survives that.

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
const UNIFIED = 8; // runs whose numbers at a step fit into one box
/** The kind of file that is of the whole run. @type {Record<string, [name: string, hint: string]>} */
const WHOLE = { html: ["Report", "a page to read, about the whole run"] };
const [LINE, NAMED] = [22, 230]; // pixels: the height of a line of the legend, about the width of a run's name

/** @typedef {[step: number, ...values: (number | null)[]]} Point step, then the values of `options.series` */
/** @typedef {{name: string, colour: string, isDotted: boolean, steps: number, points: Point[]}} OtherRun */
/** @typedef {{between: (first: number, last: number) => Promise<Point[]>, file: (kind: string) => any}} Actions the points between two steps; to save the numbers or the picture as a file */

/**
 * The values of a column, or their exponential mean over steps, which does not depend on how many steps a point stands for.
 * @param {Point[]} points @param {number} column @param {number} [steps] of the run, for the mean
 */
function values(points, column, steps) {
  if (!steps) return points.map((point) => point[column] ?? null);
  const memory = Math.max(2, SMOOTHING * steps);
  let [sum, weight, last] = [0, 0, 0];
  return points.map((point) => {
    const [step] = point,
      value = point[column] ?? null;
    if (value === null) return null;
    const rate = 1 - Math.exp((last - step) / memory);
    last = step;
    sum += rate * (value - sum);
    weight += rate * (1 - weight);
    return sum / weight;
  });
}

export class Curves {
  wasNarrow = false;
  isLogarithmic = false;
  more = false;
  /** @type {{run: string, steps: number} | null} */
  run = null;
  /** @type {Point[]} */
  points = [];
  /** On held-out text. @type {Point[]} */
  held = [];
  /** Losses to compare with. @type {Record<string, {loss: number, label: string}>} */
  baselines = {};
  /** @type {OtherRun[]} */
  others = [];
  /** The step of the vertical line. @type {number | null} */
  marked = null;
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
      saveMenu({ id: "curves", what: "the run", kinds: ["png", "csv", "json", "html"], named: WHOLE }, file),
    );
  }

  /** Change what is shown, and draw it. @param {object} update */
  change(update) {
    Object.assign(this, update);
    const { box, run, points, baselineNames } = this,
      // To draw an empty chart takes longer than the first points of a run take to come.
      isEmpty = run !== null && points.length === 0;
    box.dataset.points = `${points.length}`;
    box.classList.toggle("is-empty", isEmpty);
    const names = baselineNames.map((name, k) => [k > 0 && " · ", el("span", name)]);
    fill(this.flat, names.length > 0 && ["Flat lines: ", names]);
    if (!isEmpty) this.chart.show().catch(console.error);
  }

  /** Show a run without points. @param {{run: string, steps: number} | null} run null for none */
  begin(run) {
    this.change({ run, points: [], held: [], baselines: {}, marked: null });
  }

  /** What the losses are to compare with. */
  get baselineNames() {
    return Object.values(this.baselines).map(({ label }) => label);
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
      isOutside = (/** @type {Point} */ [step]) => step < first || step > last,
      fresh = await actions.between(first, last),
      others = this.points.filter(isOutside);
    if (run !== this.run || others.length + fresh.length <= this.points.length) return;
    this.change({ points: [...others, ...fresh].sort(([one], [other]) => one - other) });
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

  /** What a trace of the shown run or of the example shows. @param {any} meta @returns {{x: number[], y: (number | null)[]}} */
  part({ series, kind, smoothed }) {
    const { run, held, baselines, points, options } = this;
    if (kind === "baseline") {
      const flat = run && baselines[series];
      return flat ? { x: [0, run.steps], y: [flat.loss, flat.loss] } : { x: [], y: [] };
    }
    const source = kind === "held" ? held : this.isExample ? options.example : points,
      x = source.map((/** @type {Point} */ [step]) => step),
      y = values(source, this.column(series), smoothed && (run?.steps ?? 100));
    // An empty curve is missing in the legend, which would grow with the first point and push the chart down.
    return kind === "line" ? { x: [0, ...x], y: [null, ...y] } : { x, y };
  }

  /** The curves of other runs, each run in one colour. @param {any[]} data the traces of the shown one */
  overlaid(data) {
    const own = data.filter(({ meta }) => meta.smoothed),
      steps = Math.min(...this.others.map((other) => other.steps)); // one smoothing for all, else a longer run seems slower
    return this.others.flatMap(({ name, colour, isDotted, points }) =>
      own.map((trace) => {
        const { series } = trace.meta,
          dash = isDotted ? DOTTED[trace.line.dash] : trace.line.dash;
        return {
          ...trace,
          x: points.map(([step]) => step),
          y: values(points, this.column(series), steps),
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
    const { run, held, others, marked, isExample, isNarrow, isLogarithmic } = this,
      { data, layout } = skeleton(this.options.series, this.more);
    this.wasNarrow = isNarrow;
    for (const trace of data) {
      const { kind, smoothed } = trace.meta;
      Object.assign(trace, this.part(trace.meta));
      if (isExample) trace.opacity = kind === "raw" ? 0 : document.body.matches(".dark") ? 0.9 : 0.45;
      if (kind === "held") trace.visible = held.length > 0;
      if (smoothed) trace.hovertemplate = trace.hovertemplate.replace("<extra>", ", smoothed<extra>");
      // Of other runs alone, the colour tells the run, and the legend names what a dashed line is.
      if (others.length && !run) trace.line = { ...trace.line, color: colour("curve-other") };
      if (isNarrow) trace.name = /\((\w+)\)/.exec(trace.name)?.[1] ?? trace.name; // a legend of one line
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
    const line = { color: colour("curve-other"), width: 1 };
    if (marked !== null) layout.shapes = [{ type: "line", yref: "paper", x0: marked, x1: marked, y0: 0, y1: 1, line }];
    if (isExample) layout.annotations = this.notes();
    return { data, layout };
  }

  /** Save the numbers or the picture. @param {string} kind @param {any} answer of the server */
  save(kind, { name, content, title, error }) {
    if (error) say(error);
    else if (title) this.picture(title, name).catch(({ message }) => say(message));
    else saveText(content, `${name}.${kind}`);
  }

  /** @param {string} text @param {string} filename without its ending */
  async picture(text, filename) {
    const size = { width: 1000, height: this.more ? 900 : 560, scale: 2 };
    const below = this.baselineNames.length > 0 ? `<br><sup>Flat lines: ${this.baselineNames.join(" · ")}</sup>` : "",
      title = { text: literal(text) + below, font: { size: 15 }, x: 0, xref: "paper", y: 0.985, yanchor: "top" };
    await this.chart.show(); // or the reason why there is none
    const { data, layout } = this.box,
      font = { ...layout.font, color: "#475569" },
      margin = { ...layout.margin, t: layout.margin.t + 42 }; // for the title
    const light = { ...layout, paper_bgcolor: "white", font, margin, title };
    await window.Plotly.downloadImage({ data, layout: light }, { format: "png", filename, ...size });
  }
}
