// An experiment: the progress of its runs, then a row of numbers for each variant and a sentence that answers the question.

import { dot, el, fill, progress, row, scrolling, table } from "../parts/elements.js";
import { duration } from "../parts/numbers.js";
import { keep, kept, on } from "../parts/page.js";
import { polling } from "../parts/polling.js";
import { runs } from "../train/runs.js";

const ASK_MS = 1000;

/** The numbers of each variant, and the answer. @param {any} result */
function answered({ columns, rows, answer, how }) {
  const lines = rows.map(({ colour, isDotted, title, cells }) => {
    const numbers = cells.map((cell, k) => el("td.b-number", { "data-name": columns[k] }, cell));
    return row([el("span.b-side", dot(colour, isDotted), title), ...numbers]);
  });
  return [
    el("p.b-answer", { id: "experiment-answer" }, answer),
    scrolling("Variants", table([el("span.b-unseen", "Variant"), ...columns], lines)),
    el("p.b-empty", how),
  ];
}

class Experiment {
  /** @type {string | null} */
  visitor = null;
  number = 0;
  cursor = 0;
  /** Runs of the experiment that are drawn over the curves. @type {string[]} */
  ticked = [];
  title = el("h3");
  question = el("p.b-empty");
  status = el("p.b-reason", { role: "status", id: "experiment-status" });
  bar = progress("Progress of the experiment");
  result = el("div", { id: "experiment-result" });
  element = el("div.b-experiment", this.title, this.question, this.status, this.bar.element, this.result);

  /** @param {HTMLElement} root @param {ViewContext["server"]} server */
  constructor(root, server) {
    root.append(this.element);
    this.element.hidden = true;
    this.poll = polling(async () => {
      if (this.visitor !== runs.visitor) {
        Object.assign(this, { visitor: runs.visitor, number: 0, cursor: 0 });
        this.ticked = kept("experiment", this.visitor)?.[2] ?? [];
      }
      if (!this.visitor) return undefined;
      const news = await server.news(this.visitor, this.number, this.cursor);
      this.element.hidden = Boolean(news.error || !news.number);
      if (this.element.hidden) return undefined;
      this.tick(news);
      this.show(news);
      return news.fraction === undefined ? undefined : ASK_MS;
    });
    on("runs", this.poll);
    this.poll();
  }

  /** Draw the ended runs over the curves while the page shows one of the experiment. @param {any} news */
  tick(news) {
    if (news.ended) {
      // A reloaded page gets all of them again; those from before the reload stay ticked or not, as the person left them.
      const now = [this.number, 0, this.ticked],
        [before, known, drawn] = this.number ? now : (kept("experiment", this.visitor) ?? [0, 0, []]),
        isNew = news.number !== before,
        ended = isNew ? news.ended : news.ended.slice(known);
      this.ticked = isNew ? ended : [...drawn, ...ended];
      if (isNew || ended.length) runs.choose(isNew ? ended : [...runs.chosen, ...ended]);
    } else if (this.ticked.length) {
      // The curves show another run: those of the experiment do not belong over it.
      runs.choose([...runs.chosen].filter((id) => !this.ticked.includes(id)));
      this.ticked = [];
    }
    this.number = news.number;
    this.cursor = news.cursor;
    keep("experiment", this.visitor, [this.number, this.cursor, this.ticked]);
  }

  /** @param {any} news */
  show(news) {
    const isActive = news.fraction !== undefined;
    if (news.title) {
      this.title.textContent = news.title;
      this.question.textContent = news.question;
    }
    this.bar.element.hidden = !isActive;
    this.bar.show(news.fraction ?? 0);
    const left = news.left === null ? "" : `, about ${duration(news.left)} left`;
    this.status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}: ${news.now}${left}.` : news.reason || "";
    fill(this.result, !isActive && news.result && answered(news.result));
  }
}

/** @type {View} */
export const experiment = (root, { server }) => new Experiment(root, server).poll;
