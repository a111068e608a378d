// Plotly figures. Plotly.js is large, so it is fetched once, from this server, when the first chart is in an open tab: who
// looks at no chart needs none, and on a slow line it would take the way of what the page needs first.

import { visitor } from "../frame/page.js";
import { question } from "../frame/question.js";
import { el, note } from "./elements.js";

const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
/** @type {Promise<PlotlyLibrary> | null} */
let loading = null;

export function loadPlotly() {
  loading ||= fetched();
  return loading;
}

/** @returns {Promise<PlotlyLibrary>} */
function fetched() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = window.Balcony.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      loading = null;
      reject(new Error("The chart library did not load, so there is no chart. Load the page again."));
    };
    document.head.append(script);
  });
}

/** The page begins with its first tab, and opens that of the address then. */
const tabIsOpen = visitor.known.then(async () => {
  while (!document.getElementById(`tab-${question.tab}`)?.offsetWidth) await new Promise(requestAnimationFrame);
});

/** @typedef {{data: object[], layout: Record<string, any>}} Figure */

/**
 * A chart in `box`: `show` draws a figure anew, `extend` adds points and keeps zoom and hover, `relayout` changes the
 * layout alone. In a closed tab nothing is drawn; `redraw` does so when the tab opens, if something has changed.
 * @param {HTMLElement} box
 * @param {() => void} [redraw] without it, the newest figure is drawn
 */
export function newChart(box, redraw) {
  /** @type {Figure} */
  let latest;
  let [drawn, isStale] = [false, false];
  /** Whether to draw now. In a closed tab, which has no width, the change waits for `redraw`. */
  function isCurrent() {
    isStale ||= box.offsetWidth === 0;
    return !isStale;
  }
  new ResizeObserver(() => {
    if (!box.offsetWidth) return;
    if (isStale && redraw) redraw();
    else if (isStale) chart.show(latest).catch(console.error);
    else if (drawn) window.Plotly.Plots.resize(box);
  }).observe(box);
  const chart = {
    async show(/** @type {Figure} */ figure) {
      latest = figure;
      isStale = false;
      await tabIsOpen;
      if (!isCurrent()) return;
      const Plotly = await loadPlotly().catch((error) => {
        box.replaceChildren(note(error.message, true));
        throw error;
      });
      if (!drawn) box.replaceChildren();
      // Plotly writes into what it is given; the value belongs to Gradio.
      const { data, layout } = structuredClone(figure);
      await Plotly.react(box, data, layout, CONFIG);
      drawn = true;
    },
    async relayout(/** @type {object} */ update) {
      if (drawn && isCurrent()) await window.Plotly.relayout(box, update);
    },
    async extend(/** @type {object} */ update, /** @type {number[]} */ traces) {
      if (drawn && isCurrent()) await window.Plotly.extendTraces(box, update, traces);
    },
  };
  return chart;
}

/** @type {View} */
export function view(root) {
  const box = el("div", { class: "b-chart" });
  root.append(box);
  const chart = newChart(box);
  return function draw(figure) {
    box.hidden = !figure;
    if (figure) chart.show(figure).catch(console.warn);
  };
}
