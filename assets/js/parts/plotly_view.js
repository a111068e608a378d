// Plotly figures. Plotly.js is large, so it is fetched once, from this server, when the page has gone quiet
// or when the first figure asks for it, whichever comes first.

import { el } from "./elements.js";

const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
let loading = null;

export function loadPlotly() {
  loading = loading || new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = window.Balcony.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => { loading = null; reject(new Error("The chart library did not load.")); };
    document.head.append(script);
  });
  return loading;
}

const whenIdle = window.requestIdleCallback || ((callback) => setTimeout(callback, 500));
const loadInAdvance = () => whenIdle(() => loadPlotly().catch(console.error), { timeout: 3000 });
if (document.readyState === "complete") loadInAdvance();
else window.addEventListener("load", loadInAdvance);

/**
 *  A chart in `box`: `show(figure)` draws it anew, `extend(update, traces)` adds points and keeps zoom and hover,
 *  `relayout(update)` changes the layout alone. */
export function newChart(box) {
  let drawn = null;
  // A chart that was drawn in a hidden tab has no width; the observer sees the tab open.
  new ResizeObserver(() => {
    if (drawn && box.offsetWidth) window.Plotly.Plots.resize(box);
  }).observe(box);
  return {
    async show(figure) {
      const Plotly = await loadPlotly();
      // Plotly writes into what it is given; the value belongs to Gradio.
      const { data, layout } = structuredClone(figure);
      await Plotly.react(box, data, layout, CONFIG);
      drawn = true;
    },
    async relayout(update) {
      if (drawn) await window.Plotly.relayout(box, update);
    },
    async extend(update, traces) {
      if (drawn) await window.Plotly.extendTraces(box, update, traces);
    },
  };
}

export function plot(root) {
  const box = el("div", { class: "balcony-chart" });
  const caption = el("p", { class: "balcony-empty" });
  root.append(box, caption);
  const chart = newChart(box);
  return function draw(figure) {
    box.hidden = !figure;
    caption.hidden = Boolean(figure);
    if (figure) chart.show(figure).catch((error) => { caption.hidden = false; caption.textContent = error.message; });
  };
}
