// Plotly figures. Plotly.js is large, so it is fetched once, from this server, when the page has gone quiet
// or when the first figure asks for it, whichever comes first.
(function (Balcony) {
  "use strict";

  const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
  let loading = null;

  Balcony.loadPlotly = function () {
    loading = loading || new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = Balcony.plotlyAddress;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => { loading = null; reject(new Error("The chart library did not load.")); };
      document.head.append(script);
    });
    return loading;
  };

  const whenIdle = window.requestIdleCallback || ((callback) => setTimeout(callback, 500));
  window.addEventListener("load", () => whenIdle(() => Balcony.loadPlotly().catch(console.error), { timeout: 3000 }));

  /**
   *  A chart in `box`: `show(figure)` draws it anew, `extend(update, traces)` adds points and keeps zoom and hover,
   *  `relayout(update)` changes the layout alone. */
  Balcony.chart = function (box) {
    let drawn = null;
    // A chart that was drawn in a hidden tab has no width; the observer sees the tab open.
    new ResizeObserver(() => {
      if (drawn && box.offsetWidth) window.Plotly.Plots.resize(box);
    }).observe(box);
    return {
      async show(figure) {
        const Plotly = await Balcony.loadPlotly();
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
  };

  Balcony.views.plot = function (root) {
    const box = Balcony.el("div", { class: "balcony-chart" });
    const caption = Balcony.el("p", { class: "balcony-empty" });
    root.append(box, caption);
    const chart = Balcony.chart(box);
    return function draw(figure) {
      box.hidden = !figure;
      caption.hidden = Boolean(figure);
      if (figure) chart.show(figure).catch((error) => { caption.hidden = false; caption.textContent = error.message; });
    };
  };
})(window.Balcony);
