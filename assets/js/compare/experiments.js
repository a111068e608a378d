// An experiment: the progress of its runs, then a row of numbers for each variant and a sentence that answers the question.

import { el } from "../parts/elements.js";
import { duration } from "../parts/numbers.js";
import { keep, kept, latest, on } from "../parts/page.js";
import { dot, runs } from "../train/runs.js";

const ASK_MS = 1000;

/** @type {View} */
export function experiment(root, { server }) {
  const title = el("h3", {});
  const question = el("p", { class: "b-empty" });
  const status = el("p", { class: "b-reason", role: "status", id: "experiment-status" });
  const fill = el("span", { class: "b-bar-fill" });
  const bar = el(
    "div",
    {
      class: "b-bar",
      role: "progressbar",
      "aria-label": "Progress of the experiment",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    fill,
  );
  const result = el("div", { id: "experiment-result" });
  const shown = el("div", { class: "b-experiment" }, title, question, status, bar, result);
  root.append(shown);
  shown.hidden = true;
  /** @type {string | null} */
  let visitor = null;
  let number = 0;
  let cursor = 0;
  let timer = 0;
  let ticked = /** @type {string[]} */ ([]); // runs of the experiment that are drawn over the curves

  function table({ columns, rows, answer, how }) {
    return [
      el("p", { class: "b-answer", id: "experiment-answer" }, answer),
      el(
        "div",
        { class: "b-scroll" },
        el(
          "table",
          { class: "b-sides" },
          el(
            "thead",
            {},
            el(
              "tr",
              {},
              el("th", { scope: "col" }, el("span", { class: "b-unseen" }, "Variant")),
              ...columns.map((name) => el("th", { scope: "col", class: "b-number" }, name)),
            ),
          ),
          el(
            "tbody",
            {},
            ...rows.map((row) =>
              el(
                "tr",
                {},
                el("th", { scope: "row" }, el("span", { class: "b-side" }, dot(row), row.title)),
                ...row.cells.map((cell, index) => el("td", { class: "b-number", "data-name": columns[index] }, cell)),
              ),
            ),
          ),
        ),
      ),
      el("p", { class: "b-empty" }, how),
    ];
  }

  function take(news) {
    if (news.error || !news.number) {
      shown.hidden = true;
      return false;
    }
    if (news.title) {
      title.textContent = news.title;
      question.textContent = news.question;
      result.replaceChildren();
    }
    if (news.ended) {
      // A reloaded page gets all of them again; those from before the reload stay ticked or not, as the person left them.
      const [before, known, drawn] = number ? [number, 0, ticked] : kept("experiment", visitor) || [0, 0, []];
      const isNew = news.number !== before;
      const ended = isNew ? news.ended : news.ended.slice(known);
      ticked = isNew ? ended : [...drawn, ...ended];
      if (isNew || ended.length) runs.choose(isNew ? ended : [...runs.chosen, ...ended]);
    } else if (ticked.length) {
      // The curves show another run: those of the experiment do not belong over it.
      runs.choose([...runs.chosen].filter((id) => !ticked.includes(id)));
      ticked = [];
    }
    ({ number, cursor } = news);
    keep("experiment", visitor, [number, cursor, ticked]);
    shown.hidden = false;
    const isActive = news.fraction !== undefined;
    bar.hidden = !isActive;
    if (isActive) {
      const left = news.left === null ? "" : `, about ${duration(news.left)} left`;
      status.textContent = `Run ${news.done + 1} of ${news.of}: ${news.now}${left}.`;
      fill.style.width = `${news.fraction * 100}%`;
      bar.setAttribute("aria-valuenow", `${Math.round(news.fraction * 100)}`);
      result.replaceChildren();
    } else {
      status.textContent = news.reason || "";
      result.replaceChildren(...(news.result ? table(news.result) : []));
    }
    return isActive;
  }

  const ask = latest(async () => {
    clearTimeout(timer);
    if (visitor !== runs.visitor) {
      visitor = runs.visitor;
      number = cursor = 0;
      ticked = kept("experiment", visitor)?.[2] ?? [];
    }
    if (!visitor) return;
    const isActive = take(await server.news(visitor, number, cursor));
    if (isActive && document.visibilityState === "visible") timer = setTimeout(poll, ASK_MS);
  });
  const poll = () =>
    ask().catch((error) => {
      console.warn(error);
      timer = setTimeout(poll, 2 * ASK_MS);
    });

  on("runs", poll);
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") poll();
  });
  poll();
  return function draw() {
    poll();
  };
}
