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
  isChosen = false; // the pattern, by the person
  target = select("Pattern", [], () => {
    this.isChosen = true;
    this.draw(this.value);
  });
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
    else if (this.isOpen && this.panel.isConnected) this.chart.show().catch(console.warn);
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
    const names = value.targets.map((name) => /** @type {[string, string]} */ ([name, PATTERNS[name]])),
      { births } = value;
    options(this.target, names, this.isChosen ? this.target.value : births[0]?.target);
    if (!this.panel.isConnected) fill(this.root, this.panel);
    fill(this.said, value.said && el("p", value.said), notes(value.notes));
    fill(this.born, births.length > 0 && this.table(value));
    this.chart.show().catch(console.warn);
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
      places = [...kept.keys()],
      grey = colour("curve-other"),
      [layers, heads] = [above[0][t].length, above[0][t][0].length],
      chosen = `${nearest(layers, heads)}`;
    /** @param {string} name @param {string} axis @param {(number | null)[]} y @param {object} line @param {object} [more] */
    const trace = (name, axis, y, line, more) => ({
      ...{ type: "scatter", mode: "lines", x: places, y, xaxis: `x${axis}`, yaxis: `y${axis}`, name, line },
      ...{ hovertemplate: "%{fullData.name}: %{y:.3f}<extra></extra>", showlegend: false, ...more },
    });
    const ofHead = (/** @type {[number, number]} */ [layer, head]) => {
      const birth = births.find((each) => each.layer === layer && each.head === head && each.target === targets[t]),
        at = birth ? kept.indexOf(birth.step) : -1,
        isChosen = `${[layer, head]}` === chosen,
        line = { color: birth ? colourOf(layer * heads + head) : grey, width: isChosen ? 3 : birth ? 2 : 1 };
      const more = { customdata: kept.map((step) => [[layer, head], step]), opacity: birth || isChosen ? 1 : 0.4 },
        marker = {
          symbol: "star",
          size: places.map((place) => (place === at ? 15 : 0)),
          opacity: 1,
          color: line.color,
        };
      const pattern = { ...more, mode: "lines+markers", marker, showlegend: Boolean(birth) };
      return [
        trace(headName([layer, head]), "", above.map((each) => each[t][layer][head]), line, pattern), // prettier-ignore
        trace(headName([layer, head]), "3", costs.map((each) => each[layer][head]), line, more), // prettier-ignore
      ];
    };
    const limit = (/** @type {number} */ layer) =>
      trace(`Limit of layer ${layer + 1}`, "", limits.map((each) => each[t][layer]), { color: grey, dash: "dot" }); // prettier-ignore
    const points = curve.filter(([step]) => step >= kept[0] && step <= (kept.at(-1) ?? 0)),
      values = points.map(([, value]) => value),
      at = { x: points.map(([step]) => placeOf(kept, step)) },
      loss = trace("Loss", "2", values, { color: colour("curve-mlm"), width: 2 }, at);
    const data = [[...Array(layers).keys()].map(limit), headsOf(layers, heads).map(ofHead), loss].flat(2);
    return { data, layout: this.layout(this.value) };
  }

  layout({ kept, fall, parts }) {
    const layout = stacked(PANELS.slice(0, parts[1] > kept.length ? 3 : 2)),
      every = Math.ceil(kept.length / TICKS),
      tickvals = [...kept.keys()].filter((place) => place % every === 0),
      ticktext = tickvals.map((place) => count(kept[place])),
      upright = { yref: "paper", y0: 0, y1: 1 },
      [from, to, here] = [...(fall ?? [0, 0]), question.step ?? kept.at(-1) ?? 0].map((step) => placeOf(kept, step)),
      shown = { type: "line", ...upright, x0: here, x1: here, line: { color: colour("curve-other"), width: 1 } },
      shaded = { type: "rect", ...upright, x0: from, x1: to, opacity: 0.12, line: { width: 0 }, layer: "below" };
    for (const [name, axis] of Object.entries(layout))
      if (name.startsWith("xaxis")) Object.assign(axis, { range: [-0.4, kept.length - 0.6], tickvals, ticktext });
    const shapes = fall ? [{ ...shaded, fillcolor: colour("curve-mlm") }, shown] : [shown];
    return { ...layout, hovermode: "closest", uirevision: this.asked, shapes };
  }
}

/** @type {View} */
export function view(root, context) {
  new HeadBirths(root, context);
}
