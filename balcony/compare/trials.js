// An experiment: the progress of its runs, then a table and a sentence that answers its question.

import { progress, row, scrolling, table } from "../controls.js";
import { button, dot, el, fill, withTerms } from "../parts/elements.js";
import { duration } from "../parts/numbers.js";
import { on, orError, polling, say, visitor } from "../frame/page.js";
import { answer } from "../frame/server.js";

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
 * @param {() => void} slower starts the same with a smaller rate
 */
function layout(root, stopAll, slower) {
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
    trial = el("div.b-trial", title, question, status, bar, stop, result),
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

/** @type {View} */
export function view(root, { trigger }) {
  const stop = async () => {
    const { error } = await orError(answer("stop-experiment"));
    if (error) say(error);
    await poll();
  };
  const show = layout(root, stop, () => trigger("slower"));
  let [asked, number] = ["", 0];
  show({}, false);

  const poll = polling(async () => {
    await visitor.known;
    if (asked !== visitor.token) number = 0;
    asked = visitor.token;
    const news = await answer("experiment", number);
    show(news, news.number !== number);
    number = news.number ?? 0;
    return news.fraction === undefined ? undefined : ASK_MS;
  });
  on("runs", poll);
  poll();
  return function draw(/** @type {any} */ begun) {
    if (begun) root.scrollIntoView({ block: "nearest" });
    poll();
  };
}
