// A run that trains, live, in Train and in Fine-tune. The page polls with its cursors and gets what is new: a few numbers and
// never the whole curve, so that many pages cost the server little, and zoom and hover survive.

import { progress } from "../controls.js";
import { el, fill, withTerms } from "../parts/elements.js";
import { announce, polling } from "../frame/page.js";
import { question } from "../frame/question.js";
import { answer } from "../frame/server.js";

/** Why no news come where the server answers otherwise. */
const BLOCKED =
  "Something between this page and the server blocks /balcony/ask, such as an extension of the browser. Allow it to see the numbers; the run continues.";
const ALONE =
  "If the server is still there, the run continues without this page; on a server for many, it pauses after 10 minutes.";
const HIDDEN_MS = 60000; // a hidden page only renews the lease
const RETRY_MS = 2000;
const EAGER_MS = 120;
const EAGER_POLLS = 5; // after a press: its effect takes a little time
const MOST_POINTS = 3000; // with more, the page fetches the curve again, thinned
const FIRST = [0, -1, 0]; // the cursors of a new page; later ones come with each answer

/** A run's status in words, and how far it is. @param {string} name of the progress bar @param {string} id beginning of the ids */
export function statusLine(name, id) {
  const title = el("p.b-status", { role: "status", id: `${id}-status` }),
    reason = el("p.b-reason", { dir: "auto" }),
    of = el("p.b-empty.b-status-of", { id: `${id}-of`, hidden: "" }),
    line = el("div.b-status-line", title, reason, of),
    bar = progress(name);
  return {
    line,
    bar,
    /** The status decides the title's colour. @param {string} words @param {string} text @param {string} [status] */
    say(words, text, status = "") {
      fill(title, words);
      fill(reason, withTerms(text)); // its sentences are translated whole, with a person's words
      title.dataset.status = status;
    },
    /** Name the run where the page shows another model. @param {string} [key] of the run @param {string} [run] */
    name(key, run) {
      of.hidden = !key || key === question.model;
      if (!of.hidden) of.textContent = `This is “${run}”; the model chosen above is another one.`;
    },
  };
}

export class LiveRun {
  /** The run as the server describes it: its visitor, its id, and what else the view needs. @type {any} */
  run = null;
  /** @type {import("../train/curves.js").Curves | null} */
  chart = null;
  cursors = FIRST;
  status = "";
  isLost = false;
  eager = 0; // polls to send quickly
  poll = polling(() => this.ask(), HIDDEN_MS);

  /** @param {ViewContext} context @param {any} board a status line, with more of the view */
  constructor({ trigger, options }, board) {
    this.trigger = trigger;
    this.options = options;
    this.board = board;
  }

  /** Show another run from its first step. @param {any} run @param {object} [more] of the view */
  follow(run, more) {
    Object.assign(this, { run, cursors: FIRST, status: "", ...more });
  }

  /** All points come again. */
  restart() {
    this.cursors = [0, ...this.cursors.slice(1)];
  }

  /** Ask at once, since a press has changed something. */
  hurry() {
    this.eager = EAGER_POLLS;
    this.poll();
  }

  /** Get what is new; the answer is when to ask again. @returns {Promise<number | void>} */
  async ask() {
    const { run, chart } = this;
    if (!run) return;
    if (chart && !chart.zoom && chart.points.length > MOST_POINTS) {
      this.restart();
      chart.restart();
    }
    try {
      const fresh = await answer("news", run.run, this.cursors);
      if (this.isLost) announce("again", null);
      this.isLost = false;
      if (run !== this.run) return 0;
      if (fresh.step < this.cursors[0]) {
        this.cursors = FIRST; // the server has restarted, and the run is at an earlier step
        this.chart?.restart();
        return 0;
      }
      if (fresh.error) this.lose(fresh.error);
      else this.take(fresh);
      this.eager = Math.max(0, this.eager - 1);
      return this.eager ? Math.min(EAGER_MS, fresh.poll_ms) : fresh.poll_ms;
    } catch (error) {
      await this.wait();
      return RETRY_MS;
    }
  }

  /** No news come. */
  async wait() {
    this.isLost = true;
    const health = await fetch("health", { cache: "no-store" })
      .then((answer) => answer.json())
      .catch(() => null);
    if (!health) this.board.say("Connection lost", `Trying again. ${ALONE}`);
    else this.board.say("No news of the run", health.error ?? BLOCKED);
  }

  /** The server has no such run. @param {string} why */
  lose(why) {
    this.board.say("Run not found", why);
    this.run = null;
  }

  take({ cursors, points, held, snapshots, status }) {
    this.cursors = cursors;
    this.chart?.add(points);
    if (held) this.chart?.hold(held);
    if (points.length || snapshots.length) announce("snapshots", { run: this.run.run, steps: snapshots, points });
    if (status === this.status) return;
    this.status = status;
    announce("status", null);
  }
}
