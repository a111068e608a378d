// An experiment: the progress of its runs, then a table and a sentence that answers its question.

import { progress, row, scrolling, table } from "../controls.js";
import { button, dot, el, fill, note, withTerms } from "../parts/elements.js";
import { duration } from "../parts/numbers.js";
import { keep, kept, on, orError, polling, visitor } from "../frame/page.js";
import { answer } from "../frame/server.js";
import { runs } from "./runs.js";

const HELLO =
  "Choose a question and press Start experiment. Its models are trained one after the other; then a table and a " +
  "sentence answer the question here. They are trained on the text and with the settings of the Train tab, those of " +
  "the last question on the task of the Fine-tune tab.";
const ASK_MS = 1000;

/** A row for each variant. @param {any} result */
function variants({ columns, rows }) {
  const lines = rows.map(({ colour, isDotted, title, cells }) => {
    const numbers = cells.map((cell, k) => el("td.b-number", { "data-name": columns[k] }, cell));
    return row([el("span.b-side", dot(colour, isDotted), title), ...numbers]);
  });
  return scrolling("Variants", table([el("span.b-unseen", "Variant"), ...columns], lines));
}

/**
 * What stands on the page.
 * @param {HTMLElement} root @param {() => void} stopAll
 * @param {() => void} slower starts the same with a smaller rate @param {Node} ticked about the ticks
 */
function layout(root, stopAll, slower, ticked) {
  const title = el("h3", { dir: "auto" }),
    question = el("p.b-empty"),
    status = el("p.b-reason", { role: "status", id: "experiment-status" }),
    bar = progress("Progress of the experiment"),
    stop = button("Stop", stopAll, { id: "experiment-stop" }),
    answer = el("p.b-answer", { id: "experiment-answer" }),
    again = button("The same with a third of the learning rate", slower, { id: "experiment-slower" }),
    numbers = el("div"),
    how = el("p.b-empty"),
    result = el("div", { id: "experiment-result" }, answer, again, numbers, how),
    trial = el("div.b-trial", title, question, status, bar, stop, ticked, result),
    before = el("p.b-empty", HELLO);
  root.append(before, trial);
  return (/** @type {any} */ news, /** @type {boolean} */ isNew) => {
    trial.hidden = !news.number;
    before.hidden = !trial.hidden;
    if (trial.hidden) return;
    if (isNew) {
      title.textContent = news.title;
      question.textContent = news.question;
    }
    const isActive = news.fraction !== undefined;
    const left = news.left ? `, about ${duration(news.left)} left` : "";
    status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}: ${news.now}${left}.` : news.reason;
    bar.hidden = stop.hidden = !isActive;
    bar.value = news.fraction ?? 0;
    answer.textContent = news.result?.answer ?? "";
    again.hidden = !news.result?.slower;
    fill(how, withTerms(news.result?.how ?? ""));
    fill(numbers, news.result?.rows && variants(news.result));
  };
}

/** Tick the runs of an experiment that has just begun, and no others. Returns whether it has; a reloaded page knows it. @param {any} news */
function choose({ number, runs: begun }) {
  if (!number || number === kept("experiment", visitor.token)) return false;
  keep("experiment", visitor.token, number);
  if (begun.length) runs.choose(begun);
  return true;
}

/** @type {View} */
export function view(root, { trigger }) {
  /** @type {string[][]} */
  let [mine, its] = [[], []]; // the runs that were ticked before a trial, and its own
  const again = button("Tick mine again", () => runs.choose(mine), { id: "experiment-mine" }),
    ticked = el("p.b-empty", { hidden: "" }, "In the list above, its runs are ticked now and no others. ", again),
    few = el("div"),
    isSo = () => its.length === runs.chosen.size && its.every((run) => runs.chosen.has(run)),
    warn = () => fill(few, runs.few && note(runs.few));
  root.append(few);
  on("refused", warn); // as soon as the form is read
  on("chosen", () => {
    ticked.hidden ||= !isSo();
  });
  warn();
  const stop = () => orError(answer("stop")).then(poll);
  const show = layout(root, stop, () => trigger("slower"), ticked);
  let [asked, number] = ["", 0];
  show({}, false);

  const poll = polling(async () => {
    await visitor.known;
    if (asked !== visitor.token) number = 0;
    asked = visitor.token;
    const news = await answer("experiment", number);
    show(news, news.number !== number);
    const before = [...runs.chosen];
    if (news.number !== number && choose(news)) {
      mine = before.filter((run) => !news.runs.includes(run));
      its = news.runs;
      ticked.hidden = !mine.length || !its.length;
      root.scrollIntoView({ block: "nearest" });
    }
    number = news.number ?? 0;
    return news.fraction === undefined ? undefined : ASK_MS;
  });
  on("runs", poll);
  poll();
  return poll;
}
