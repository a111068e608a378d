// Plotly figures. Plotly.js is large, so it is fetched once, from this server, and not before the page can be used: on a
// slow line it would take the way of what the page needs first.

import { visitor } from "../frame/page.js";
import { el, note } from "./elements.js";

const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
/** @type {Promise<PlotlyLibrary> | null} */
let loading = null;

export function loadPlotly() {
  loading ||= visitor.known.then(fetched);
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

const whenIdle = window.requestIdleCallback || ((callback) => setTimeout(callback, 500));
visitor.known.then(() => whenIdle(() => loadPlotly().catch(console.error), { timeout: 3000 }));

/** @typedef {{data: object[], layout: Record<string, any>}} Figure */

/**
 * A chart in `box`: `show` draws a figure anew, `extend` adds points and keeps zoom and hover, `relayout` changes the
 * layout alone.
 * @param {HTMLElement} box
 */
export function newChart(box) {
  let drawn = false;
  // A chart that was drawn in a hidden tab has no width; the observer notices when the tab opens.
  new ResizeObserver(() => {
    if (drawn && box.offsetWidth) window.Plotly.Plots.resize(box);
  }).observe(box);
  return {
    async show(/** @type {Figure} */ figure) {
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
      if (drawn) await window.Plotly.relayout(box, update);
    },
    async extend(/** @type {object} */ update, /** @type {number[]} */ traces) {
      if (drawn) await window.Plotly.extendTraces(box, update, traces);
    },
  };
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
