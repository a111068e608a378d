// The charts of curves over steps, without their points: panels below each other that share the steps.

import { colour } from "../colours.js";
import { sized } from "../parts/elements.js";
import { axisOf, layoutOf } from "../parts/figures.js";

/** `axis`: what follows "x" and "y" in the names of its axes. `digits`: format of a value. `height`: beside other panels. `isLogarithmic`: may be shown on such a scale. @typedef {{axis: string, title: string, digits: string, height: number, scale: object, isLogarithmic?: boolean}} Panel */
/** What a curve is about. `held`: its name on held-out text. @typedef {{key: string, hue: string, dash: string, held: string}} Subject */
/** `dash`: of a curve of its own, without raw points and held-out text. @typedef {{name: string, panel: Panel, of: Subject, dash?: string}} Named */

const FROM_ZERO = { rangemode: "tozero" };
const FRACTIONS = { range: [0, 1.02], tickformat: ".0%" };
const LOSS = { axis: "", title: "Loss", digits: ".3f", height: 0.42, scale: FROM_ZERO, isLogarithmic: true };
const ACCURACY = { axis: "2", title: "Accuracy", digits: ".0%", height: 0.23, scale: FRACTIONS };
const MEASURE = { axis: "2", title: "Held out", digits: ".3f", height: 0.36, scale: { range: [-0.05, 1.02] } };
const BY_KIND = { axis: "3", title: "Asked words", digits: ".0%", height: 0.22, scale: FRACTIONS };
const RATE = { axis: "4", title: "Learning rate", digits: ".3g", height: 0.12, scale: FROM_ZERO };
const GRADIENT = { ...RATE, axis: "5", title: "Gradient norm", isLogarithmic: true };
/** @type {Panel[]} */
const PANELS = [LOSS, ACCURACY, MEASURE, BY_KIND, RATE, GRADIENT];

const MLM = { key: "mlm", hue: "curve-mlm", dash: "solid", held: "MLM, held-out" };
const NSP = { key: "nsp", hue: "curve-nsp", dash: "dash", held: "NSP, held-out" };
const TASK = { ...MLM, key: "task", held: "On held-out examples" };
const OTHER = { ...MLM, key: "other", hue: "curve-other" };

/** What each curve is called and where it is drawn, by the name of its numbers. @type {Record<string, Named>} */
const CURVES = {
  mlm_loss: { name: "Masked words (MLM)", panel: LOSS, of: MLM },
  nsp_loss: { name: "Next sentence (NSP)", panel: LOSS, of: NSP },
  mlm_accuracy: { name: "Asked words right", panel: ACCURACY, of: MLM },
  nsp_accuracy: { name: "Pairs right", panel: ACCURACY, of: NSP },
  loss: { name: "Training loss", panel: LOSS, of: TASK },
  measure: { name: "Held out", panel: MEASURE, of: TASK },
  masked_accuracy: { name: "masked", panel: BY_KIND, of: MLM, dash: "solid" },
  replaced_accuracy: { name: "replaced", panel: BY_KIND, of: MLM, dash: "dash" },
  kept_accuracy: { name: "kept", panel: BY_KIND, of: MLM, dash: "dot" },
  learning_rate: { name: "Learning rate", panel: RATE, of: OTHER, dash: "solid" },
  grad_norm: { name: "Gradient norm", panel: GRADIENT, of: OTHER, dash: "solid" },
};
/** Losses to compare with, and of what. @type {[series: string, of: Subject][]} */
const BASELINES = [
  ["uniform", MLM],
  ["unigram", MLM],
  ["coin", NSP],
];

const hover = (/** @type {string} */ name, /** @type {Panel} */ { digits }) => `${name} %{y:${digits}}<extra></extra>`;

/** A line without points. @param {string} series @param {string} kind @param {Panel} panel @param {Subject} of @param {any} [parts] */
const trace = (series, kind, panel, { key, hue, dash }, parts) => ({
  ...{ type: "scatter", mode: "lines", x: [], y: [], legendgroup: key, meta: { series, kind } },
  ...{ xaxis: `x${panel.axis}`, yaxis: `y${panel.axis}`, line: { color: colour(hue), width: 2, dash } },
  ...parts,
});

const SILENT = { showlegend: false, hoverinfo: "skip" };

/** A curve, its raw points behind it, and the same on held-out text. The legend shows those of losses, and switches both panels. @param {string} series */
function curve(series) {
  const { name, panel, of, dash } = CURVES[series],
    showlegend = panel === LOSS,
    named = { name, hovertemplate: hover(name, panel), showlegend };
  if (dash) return [trace(series, "line", panel, { ...of, key: series, dash }, { ...named, showlegend: of !== OTHER })];
  const thin = { color: colour(of.hue), width: 1, dash: "solid" },
    held = { name: of.held, hovertemplate: hover(of.held, panel), showlegend, visible: false },
    points = {
      mode: "lines+markers",
      cliponaxis: false,
      marker: { symbol: "circle-open", size: 7 },
      legendgroup: `${of.key} held-out`,
    };
  return [
    trace(series, "raw", panel, of, { ...SILENT, name, line: thin, opacity: 0.3 }),
    trace(series, "line", panel, of, { ...named, meta: { series, kind: "line", smoothed: true } }),
    trace(series, "held", panel, { ...of, dash: "dot" }, { ...held, ...points }),
  ];
}

/** A chart without points. @param {string[]} series names of numbers @param {boolean} more also the curves that need a panel of their own @returns {import("../parts/figures.js").Figure} */
export function skeleton(series, more) {
  const shown = series.filter((each) => more || !CURVES[each].dash),
    panels = PANELS.filter((panel) => shown.some((each) => CURVES[each].panel === panel));
  const baselines = BASELINES.map(([name, of]) => {
    const line = { color: colour(of.hue), width: 1, dash: "dot" };
    return trace(name, "baseline", LOSS, of, { ...SILENT, line, meta: { series: name, kind: "baseline" } });
  });
  return { data: [...shown.flatMap(curve), ...baselines], layout: stacked(panels) };
}

/** Panels one below the other. @param {Panel[]} panels */
export function stacked(panels) {
  const gap = panels.length > 2 ? 0.05 : 0.1, // so that the numbers of two axes do not touch
    last = panels.at(-1),
    unit = (1 - gap * (panels.length - 1)) / panels.reduce((sum, { height }) => sum + height, 0);
  /** @type {Record<string, any>} */
  const axes = {};
  let top = 1;
  for (const panel of panels) {
    const { axis, scale, title } = panel,
      bottom = Math.max(0, top - panel.height * unit),
      steps = panel === last ? { title: { text: "Step", standoff: 6 } } : { matches: `x${last?.axis}` };
    axes[`xaxis${axis}`] = axisOf({ anchor: `y${axis}`, range: [0, 100], showticklabels: panel === last, ...steps });
    const text = { text: title, standoff: 6, font: { size: sized(12) } }; // no longer than a low panel is high
    axes[`yaxis${axis}`] = axisOf({ domain: [bottom, top], title: text, ...scale });
    top = bottom - gap;
  }
  return layoutOf({
    margin: { l: sized(56), r: 12, t: sized(34), b: sized(40) },
    hovermode: "x unified",
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", xanchor: "left" },
    meta: { logarithmic: panels.filter((panel) => panel.isLogarithmic).map(({ axis }) => `yaxis${axis}`) },
    ...axes,
  });
}
