// Memorised or learned: the exam, taken by itself when the run rests or a moment of it is chosen, and only when seen.
(function (Balcony) {
  "use strict";
  const { el, percent } = Balcony;

  function cell([right, asked]) {
    return el("td", { class: "balcony-number" }, asked ? `${percent(right / asked)} ` : "–",
      el("small", {}, asked ? `${right} of ${asked}` : ""));
  }

  Balcony.views.exam = function (root, { server }) {
    let isSeen = false;

    const ask = Balcony.latest(async () => {
      if (!Balcony.visitor || !isSeen) return;
      try {
        paint(await server.look(Balcony.visitor));
      } catch (error) { console.warn(error); }
    });

    function paint(value) {
      const table = value.rows && el("table", { class: "balcony-answers balcony-exam" },
        el("caption", { class: "balcony-unseen" }, `Exam at step ${value.step}`),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, `Step ${value.step.toLocaleString("en")}`),
          ...value.columns.map((name) => el("th", { scope: "col" }, name)))),
        el("tbody", {}, ...value.rows.map(([name, ...results]) => el("tr", {}, el("th", { scope: "row" }, name), ...results.map(cell)))));
      root.replaceChildren(el("h3", {}, "Memorised or learned?"), el("p", { class: "balcony-empty" }, value.text), ...(table ? [table] : []));
    }

    Balcony.bus.addEventListener("model", ({ detail }) => { if (detail.chosen) ask(); });
    Balcony.bus.addEventListener("status", () => ask());
    new IntersectionObserver(([entry]) => {
      isSeen = entry.isIntersecting;
      ask();
    }).observe(root);
    paint({ text: "" });
    return function drawn() {};
  };
})(window.Balcony);
