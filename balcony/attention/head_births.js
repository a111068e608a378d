// Heads over the kept steps of a run: the pattern of each, above the loss and what it costs to switch the head off. The steps
// stand where they do on the slider above. A press goes to a head at a step.

import { colour } from "../colours.js";
import { options, progress, scrolling, select, table } from "../controls.js";
import { exporter } from "../parts/downloads.js";
import { button, el, fill, note, notes, tools, withTerms } from "../parts/elements.js";
import { newChart } from "../parts/figures.js";
import { count, duration, headName, placeOf, signed } from "../parts/numbers.js";
import { onPart, openTab, partsOf, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { stacked } from "../train/panels.js";
import { asking } from "../views.js";
import { PATTERNS } from "./head_grid.js";
import { colourOf } from "./head_lines.js";
import { choose, draw, drawn, headsOf, nearest } from "./heads.js";

/** @typedef {any} Births see `births` in balcony/attention/head_births.py */

const INPUT = ["model", "newest", "text", "pair", "hidden"];
const input = () => partsOf(INPUT);
const HINT =
  "A [[birth of a head|head is born]] at the first kept step from which on it stays above its limit (dotted). Patterns " +
  "are those in the sentences above; a cost is how much the loss on a batch of the model's text grows when one head is " +
  "off. That a head is born while the loss falls (shaded) does not show that it makes the loss fall.";
const PANELS = [
  { axis: "", title: "Above chance", height: 0.44, scale: {}, digits: "" },
  { axis: "2", title: "Loss", height: 0.24, scale: { rangemode: "tozero" }, digits: "" },
  { axis: "3", title: "Cost (nats)", height: 0.26, scale: { zeroline: true }, digits: "" },
];
const TICKS = 8;

/** Look at a head at a step, as a map of words. @param {[number, number]} head @param {number} step */
function look(head, step) {
  draw({ mode: "map" });
  choose(head, { step });
  document.getElementById("attention-map")?.scrollIntoView();
}

class HeadBirths {
  /** @type {Births} */
  value = /** @type {any} */ (null);
  asked = ""; // the question that is answered here, or is about to be
  target = select("Pattern", [], (target) => draw({ target }));
  bar = progress("Progress of the measurement");
  left = el("span");
  progress = el("div.b-tools", { "data-no-picture": "" }, this.bar, this.left);
  said = el("div", { role: "status" });
  choice = tools(
    el("label", "Pattern ", this.target),
    el("span", "Press a line to look at that head at that step. Heads that are born stand in a table below."),
  );
  box = el("div.b-chart.is-high");
  born = el("div");
  panel = el(
    "section",
    el("h3", "When heads are born"),
    this.progress,
    this.said,
    el("p.b-empty", withTerms(HINT)),
    this.choice,
    this.box,
    this.born,
  );
  chart = newChart(
    this.box,
    () => this.figure(),
    undefined,
    ({ customdata }) => customdata && look(customdata[0], customdata[1]),
  );

  constructor(root, { options: saved }) {
    this.root = root;
    exporter(this.panel, saved);
    this.ask = asking(root, () => this.fetch());
    onPart([...INPUT, "step", "head", "heads", "tab"], () => this.show());
    this.show();
  }

  get isOpen() {
    return question.tab === "attention" && drawn().mode === "steps";
  }

  show() {
    this.root.hidden = drawn().mode !== "steps";
    if (this.isOpen && this.asked !== input()) this.ask();
    if (!this.isOpen || !this.panel.isConnected) return;
    options(this.target, Object.entries(PATTERNS), drawn().target || this.value.births[0]?.target);
    this.chart.show().catch(console.warn);
  }

  /** Ask until all parts are measured; another question or another tab ends that. */
  async fetch() {
    const asked = (this.asked = input());
    for (let [done, of] = [0, 1]; done < of;) {
      const [before, began] = [done, performance.now()],
        /** @type {Births} */ found = await answer("births");
      if (asked !== input() || !this.isOpen) return void (this.asked = "");
      if (found.error) {
        const train = button("Train a model", () => openTab({ tab: "train" }));
        return fill(this.root, note(found.error, !found.trains), found.trains && tools(train));
      }
      [done, of] = found.parts;
      const left = ((performance.now() - began) * (of - done)) / Math.max(1, done - before) / 1000;
      this.progress.hidden = done === of;
      this.bar.value = done / of;
      this.left.textContent = `${done} of ${of} parts are measured, about ${duration(left)} left`;
      this.draw(found);
    }
  }

  draw(value) {
    this.value = value;
    if (!this.panel.isConnected) fill(this.root, this.panel);
    fill(this.said, value.said && el("p", value.said), notes(value.notes));
    fill(this.born, value.births.length > 0 && this.table(value));
    this.show();
  }

  table({ births, costs, kept }) {
    const rows = births.map(({ step, layer, head, target }) => [
      [
        button(headName([layer, head]), () => look([layer, head], step), { class: "b-path" }),
        el("small", PATTERNS[target]),
      ],
      count(step),
      costs.length === kept.length ? signed(costs[kept.length - 1][layer][head], 3) : "…",
    ]);
    const head = ["Head", "Born at step", "Cost at the last step"];
    return scrolling("Births of heads", table(head, rows, { numbers: 2 }));
  }

  figure() {
    const { kept, targets, above, limits, costs, curve, births } = this.value,
      t = targets.indexOf(this.target.value),
      grey = colour("curve-other"),
      [layers, heads] = [above[0][t].length, above[0][t][0].length],
      chosen = `${nearest(layers, heads)}`;
    /** @param {string} name @param {string} axis @param {(number | null)[]} y @param {object} line @param {object} [more] */
    const trace = (name, axis, y, line, more) => ({
      ...{ type: "scatter", mode: "lines", x: [...kept.keys()], y, xaxis: `x${axis}`, yaxis: `y${axis}`, name, line },
      ...{ hovertemplate: "%{fullData.name}: %{y:.3f}<extra></extra>", showlegend: false, ...more },
    });
    const ofHead = (/** @type {[number, number]} */ [layer, head]) => {
      const birth = births.find((each) => each.layer === layer && each.head === head && each.target === targets[t]),
        name = headName([layer, head]),
        isChosen = `${[layer, head]}` === chosen,
        line = { color: birth ? colourOf(layer * heads + head) : grey, width: isChosen ? 3 : birth ? 2 : 1 },
        more = { customdata: kept.map((step) => [[layer, head], step]), opacity: birth || isChosen ? 1 : 0.4 },
        star = { symbol: "star", size: kept.map((step) => (step === birth?.step ? 15 : 0)), opacity: 1 },
        pattern = { mode: "lines+markers", marker: { ...star, color: line.color }, showlegend: Boolean(birth) };
      return [
        trace(name, "", above.map((each) => each[t][layer][head]), line, { ...more, ...pattern }), // prettier-ignore
        trace(name, "3", costs.map((each) => each[layer][head]), line, more), // prettier-ignore
      ];
    };
    const limit = (/** @type {number} */ layer) =>
      trace(`Limit of layer ${layer + 1}`, "", limits.map((each) => each[t][layer]), { color: grey, dash: "dot" }); // prettier-ignore
    const points = curve.filter(([step]) => step >= kept[0] && step <= kept[kept.length - 1]),
      at = { x: points.map(([step]) => placeOf(kept, step)) },
      losses = points.map(([, value]) => value),
      loss = trace("Loss", "2", losses, { color: colour("curve-mlm"), width: 2 }, at),
      data = [[...Array(layers).keys()].map(limit), headsOf(layers, heads).map(ofHead), loss].flat(2);
    return { data, layout: this.layout(this.value) };
  }

  layout({ kept, fall, parts }) {
    const layout = stacked(PANELS.slice(0, parts[1] > kept.length ? 3 : 2)),
      every = Math.ceil(kept.length / TICKS),
      tickvals = [...kept.keys()].filter((place) => place % every === 0),
      ticks = { range: [-0.4, kept.length - 0.6], tickvals, ticktext: tickvals.map((place) => count(kept[place])) };
    for (const [name, axis] of Object.entries(layout)) if (name.startsWith("xaxis")) Object.assign(axis, ticks);
    const shape = (/** @type {number[]} */ [from, to], /** @type {object} */ look) => {
      return { yref: "paper", y0: 0, y1: 1, x0: placeOf(kept, from), x1: placeOf(kept, to), ...look };
    };
    const step = question.step ?? kept[kept.length - 1],
      shaded = { type: "rect", fillcolor: colour("curve-mlm"), opacity: 0.12, line: { width: 0 }, layer: "below" },
      shown = shape([step, step], { type: "line", line: { color: colour("curve-other"), width: 1 } }),
      shapes = fall ? [shape(fall, shaded), shown] : [shown];
    return { ...layout, hovermode: "closest", uirevision: this.asked, shapes };
  }
}

/** @type {View} */
export function view(root, context) {
  new HeadBirths(root, context);
}
