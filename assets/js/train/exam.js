// Memorised or learned: the exam, taken by itself when the run rests or a moment of it is chosen, and only when seen.

import { el } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { latest, on, visitor } from "../parts/page.js";

function cell([right, asked]) {
  return el("td", { class: "balcony-number" }, asked ? `${percent(right / asked)} ` : "–",
    el("small", {}, asked ? `${right} of ${asked}` : ""));
}

/** @type {View} */
export function exam(root, { server }) {
  let isSeen = false;

  const ask = latest(async () => {
    if (!visitor.token || !isSeen) return;
    try {
      paint(await server.look(visitor.token));
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

  on("model", ({ chosen }) => { if (chosen) ask(); });
  on("status", () => ask());
  new IntersectionObserver(([entry]) => {
    isSeen = entry.isIntersecting;
    ask();
  }).observe(root);
  paint({ text: "" });
  return function drawn() {};
}
