// A trial: the progress of several runs, then a sentence that answers its question, with a table or a chart. Experiments are
// trials, and so is what pre-training bought; ui/compare/trials.py is the other half.

import { el } from "../parts/elements.js";
import { newChart } from "../parts/figures.js";
import { duration } from "../parts/numbers.js";
import { keep, kept, latest, on, orError, visitor } from "../frame/page.js";
import { dot, runs } from "../train/runs.js";

const ASK_MS = 1000;

/** A row for each variant. */
function table({ columns, rows }) {
  const names = columns.map((name) => el("th", { scope: "col", class: "b-number" }, name));
  const head = el("th", { scope: "col" }, el("span", { class: "b-unseen" }, "Variant"));
  const lines = rows.map((row) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, el("span", { class: "b-side" }, dot(row), row.title)),
      ...row.cells.map((cell, index) => el("td", { class: "b-number", "data-name": columns[index] }, cell)),
    ),
  );
  const body = [el("thead", {}, el("tr", {}, head, ...names)), el("tbody", {}, ...lines)];
  return el("div", { class: "b-scroll" }, el("table", { class: "b-sides" }, ...body));
}

/** What stands on the page. @param {HTMLElement} root */
function layout(root, { id, label }, stopAll) {
  const title = el("h3", { dir: "auto" }),
    question = el("p", { class: "b-empty" });
  const status = el("p", { class: "b-reason", role: "status", id: `${id}-status` });
  const fill = el("span", { class: "b-bar-fill" });
  const ends = { "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100 };
  const bar = el("div", { class: "b-bar", role: "progressbar", ...ends }, fill);
  const stop = el("button", { class: "b-small-button", id: `${id}-stop` }, "Stop");
  stop.addEventListener("click", stopAll);
  const answer = el("p", { class: "b-answer", id: `${id}-answer` }),
    numbers = el("div", {}),
    box = el("div", { class: "b-chart b-transfer", id: `${id}-chart` }),
    how = el("p", { class: "b-empty" });
  const result = el("div", { id: `${id}-result` }, answer, numbers, box, how);
  root.append(el("div", { class: "b-trial" }, title, question, status, bar, stop, result));
  const chart = newChart(box);
  return (news, isNew) => {
    root.hidden = !news.number;
    if (root.hidden) return;
    if (isNew) {
      title.textContent = news.title;
      question.textContent = news.question;
      box.hidden = true;
    }
    const isActive = news.fraction !== undefined;
    const left = news.left ? `, about ${duration(news.left)} left` : "";
    status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}: ${news.now}${left}.` : news.reason;
    bar.hidden = stop.hidden = !isActive;
    fill.style.width = `${100 * (news.fraction ?? 0)}%`;
    bar.setAttribute("aria-valuenow", `${Math.round(100 * (news.fraction ?? 0))}`);
    answer.textContent = news.result?.answer ?? "";
    how.textContent = news.result?.how ?? "";
    numbers.replaceChildren(...(news.result?.rows ? [table(news.result)] : []));
    if (!news.figure) return;
    box.hidden = false;
    chart.show(news.figure).catch(console.error);
  };
}

/** Keeps the curves of a trial's runs over each other while the page shows one of them, and never over another run. */
function overlay(id) {
  let ticked = /** @type {string[]} */ ([]);
  return (news, number) => {
    if (news.ended) {
      // A reloaded page gets all of them again; those from before the reload stay ticked or not, as the person left them.
      const [before, known, drawn] = number ? [number, 0, ticked] : kept(id, visitor.token) || [0, 0, []];
      const isNew = news.number !== before;
      const ended = isNew ? news.ended : news.ended.slice(known);
      ticked = isNew ? ended : [...drawn, ...ended];
      if (isNew || ended.length) runs.choose(isNew ? ended : [...runs.chosen, ...ended]);
    } else {
      if (!number) ticked = kept(id, visitor.token)?.[2] ?? [];
      if (ticked.length) runs.choose([...runs.chosen].filter((run) => !ticked.includes(run)));
      ticked = [];
    }
    keep(id, visitor.token, [news.number, news.done, ticked]);
  };
}

/** @type {View} */
export function view(root, { server, options }) {
  const show = layout(root, options, () => orError(server.stop(visitor.token)).then(poll)),
    draw = overlay(options.id);
  let [asked, number, done, timer] = ["", 0, 0, 0];
  root.hidden = true;

  const ask = latest(async () => {
    clearTimeout(timer);
    await visitor.known;
    if (asked !== visitor.token) number = done = 0;
    asked = visitor.token;
    const news = await server.news(asked, number, done);
    if (news.number) draw(news, number);
    show(news, news.number !== number);
    number = news.number ?? 0;
    done = news.done ?? 0;
    if (news.fraction !== undefined && document.visibilityState === "visible") timer = setTimeout(poll, ASK_MS);
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
  return poll;
}
