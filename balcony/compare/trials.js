// A trial: the progress of several runs, then a sentence that answers its question, with a table or a chart. Experiments are
// trials, and so is what pre-training bought; balcony/compare/trials.py is the other half.

import { progress, row, scrolling, table } from "../controls.js";
import { button, dot, el, fill, note } from "../parts/elements.js";
import { newChart } from "../parts/figures.js";
import { duration } from "../parts/numbers.js";
import { keep, kept, on, orError, polling, visitor } from "../frame/page.js";
import { answer } from "../frame/server.js";
import { runs } from "./runs.js";

const ASK_MS = 1000;

/** A row for each variant. @param {any} result */
function variants({ columns, rows }) {
  const lines = rows.map(({ colour, isDotted, title, cells }) => {
    const numbers = cells.map((cell, k) => el("td.b-number", { "data-name": columns[k] }, cell));
    return row([el("span.b-side", dot(colour, isDotted), title), ...numbers]);
  });
  return scrolling("Variants", table([el("span.b-unseen", "Variant"), ...columns], lines));
}

/** What stands on the page. @param {HTMLElement} root @param {{id: string, label: string, hello: string}} options @param {() => void} stopAll @param {Node} ticked about the ticks */
function layout(root, { id, label, hello }, stopAll, ticked) {
  const title = el("h3", { dir: "auto" }),
    question = el("p.b-empty"),
    status = el("p.b-reason", { role: "status", id: `${id}-status` }),
    bar = progress(label),
    stop = button("Stop", stopAll, { id: `${id}-stop` }),
    answer = el("p.b-answer", { id: `${id}-answer` }),
    numbers = el("div"),
    box = el("div.b-chart.b-transfer", { id: `${id}-chart` }),
    how = el("p.b-empty"),
    result = el("div", { id: `${id}-result` }, answer, numbers, box, how),
    chart = newChart(box, () => structuredClone(figure)),
    trial = el("div.b-trial", title, question, status, bar, stop, ticked, result),
    before = el("p.b-empty", hello);
  root.append(before, trial);
  /** @type {import("../parts/figures.js").Figure} */
  let figure;
  return (/** @type {any} */ news, /** @type {boolean} */ isNew) => {
    trial.hidden = !news.number;
    before.hidden = !trial.hidden;
    if (trial.hidden) return;
    if (isNew) {
      title.textContent = news.title;
      question.textContent = news.question;
      box.hidden = true;
    }
    const isActive = news.fraction !== undefined;
    const left = news.left ? `, about ${duration(news.left)} left` : "";
    status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}: ${news.now}${left}.` : news.reason;
    bar.hidden = stop.hidden = !isActive;
    bar.value = news.fraction ?? 0;
    answer.textContent = news.result?.answer ?? "";
    how.textContent = news.result?.how ?? "";
    fill(numbers, news.result?.rows && variants(news.result));
    if (!news.figure) return;
    box.hidden = false;
    figure = news.figure;
    chart.show().catch(console.error);
  };
}

/** Tick the runs of a trial that has just begun, and no others. Returns whether it has; a reloaded page knows it. @param {string} id @param {any} news */
function choose(id, { number, runs: begun }) {
  if (!number || number === kept(id, visitor.token)) return false;
  keep(id, visitor.token, number);
  if (begun.length) runs.choose(begun);
  return true;
}

/** @type {View} */
export function view(root, { options }) {
  /** @type {string[][]} */
  let [mine, its] = [[], []]; // the runs that were ticked before a trial, and its own
  const again = button("Tick mine again", () => runs.choose(mine), { id: `${options.id}-mine` }),
    ticked = el("p.b-empty", { hidden: "" }, "In the list above, its runs are ticked now and no others. ", again),
    few = el("div"),
    isSo = () => its.length === runs.chosen.size && its.every((run) => runs.chosen.has(run)),
    warn = () => fill(few, options.hello && runs.few && note(runs.few));
  root.append(few);
  on("refused", warn); // as soon as the form is read
  on("chosen", () => {
    ticked.hidden ||= !isSo();
  });
  warn();
  const show = layout(root, options, () => orError(answer("stop")).then(poll), ticked);
  let [asked, number, done] = ["", 0, 0];
  show({}, false);

  const poll = polling(async () => {
    await visitor.known;
    if (asked !== visitor.token) number = done = 0;
    asked = visitor.token;
    const news = await answer(options.id, number, done);
    show(news, news.number !== number);
    const before = [...runs.chosen];
    if (news.number !== number && choose(options.id, news)) {
      mine = before.filter((run) => !news.runs.includes(run));
      its = news.runs;
      ticked.hidden = !mine.length || !its.length;
      root.scrollIntoView({ block: "nearest" });
    }
    number = news.number ?? 0;
    done = news.done ?? 0;
    return news.fraction === undefined ? undefined : ASK_MS;
  });
  on("runs", poll);
  poll();
  return poll;
}
