// Memorising versus generalising: the exam, which runs when it is visible and training pauses or ends, or a step is selected.

import { el } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { on, visitor } from "../frame/page.js";
import { question } from "../frame/question.js";
import { asking } from "../views.js";

function cell([right, all]) {
  return el(
    "td",
    { class: "b-number" },
    all ? `${percent(right / all)} ` : "–",
    el("small", {}, all ? `${right} of ${all}` : ""),
  );
}

/** @type {View} */
export function view(root, { server }) {
  let isVisible = false;
  let isOpen = false;

  const ask = asking(root, async () => {
    if (!isVisible) return;
    await visitor.known;
    paint(await server.results(visitor.token, question.model, question.step));
  });

  function paint(value) {
    const table =
      value.rows &&
      el(
        "table",
        { class: "b-answers b-exam" },
        el("caption", { class: "b-unseen" }, `Exam at step ${value.step}`),
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            el("th", { scope: "col" }, `Step ${value.step.toLocaleString("en")}`),
            ...value.columns.map((name) => el("th", { scope: "col" }, name)),
          ),
        ),
        el(
          "tbody",
          {},
          ...value.rows.map(([name, ...results]) =>
            el("tr", {}, el("th", { scope: "row" }, name), ...results.map(cell)),
          ),
        ),
      );
    const [verdict, ...more] = value.verdict || [];
    isOpen = root.querySelector("details")?.open ?? isOpen; // as the person left it, also before the next table
    root.replaceChildren(
      ...(verdict ? [el("p", { class: "b-answer" }, verdict)] : []),
      ...(table
        ? [
            el(
              "details",
              isOpen ? { open: "" } : {},
              el("summary", {}, "Memorised or generalised?"),
              el("p", {}, value.text),
              ...more.map((sentence) => el("p", {}, sentence)),
              table,
              el("p", { class: "b-empty" }, value.rule),
            ),
          ]
        : [el("p", { class: "b-empty" }, value.text)]),
    );
  }

  on("question", ({ changed }) => {
    if (changed.has("model") || changed.has("step")) ask();
  });
  on("status", () => ask());
  new IntersectionObserver(([entry]) => {
    isVisible = entry.isIntersecting;
    ask();
  }).observe(root);
  paint({ text: "" });
  return function drawn() {};
}
