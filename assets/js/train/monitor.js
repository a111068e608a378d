// One training run, live. The page polls with its cursors and gets what is new: a few numbers and never the whole curve,
// so that many pages cost the server little, and zoom and hover survive.

import { progress } from "../controls.js";
import { draws, el } from "../parts/elements.js";
import { count, duration, loss } from "../parts/numbers.js";
import { announce, on, orError, say, tabs } from "../frame/page.js";
import { polling } from "../parts/polling.js";
import { question } from "../frame/question.js";
import { asking } from "../views.js";
import { curves } from "./curves.js";
import { guessBoard } from "./guess_board.js";
import { nextStep } from "./next_step.js";
import { hasEnded, runs, STATUS_NAMES } from "../compare/runs.js";

// What to do next, if the run gives no reason.
const NEXT = { paused: "One step trains a single step, Resume continues." };
const BLOCKED =
  "Something between this page and the server blocks /balcony/news, such as an extension of the browser. Allow it to see the numbers; the run continues.";
const HELLO =
  "BERT is a model that learns to fill in hidden words. Press Start to train a small one of your own. The pale curves are those of an earlier run.";
const EAGER_MS = 120;
const EAGER_POLLS = 5; // after a button was pressed: its effect takes a little time
export const HIDDEN_MS = 60000; // a hidden page only renews the lease
export const RETRY_MS = 2000;
// The page requests guesses less often than numbers, and spends at most a twentieth of the time waiting for them.
const GUESS_POLLS = 3;
const GUESS_FRACTION = 1 / 20;
export const FIRST = [0, -1, 0]; // the cursors of a new page; later ones come with each answer
const MOST_POINTS = 3000; // with more, the page fetches the curve again, thinned

/** News of a run since the cursors, see ui/server/news.py. */
export async function news(run, more, cursors) {
  const answer = await fetch(new URL("balcony/news", document.baseURI), {
    method: "POST",
    body: JSON.stringify([run.visitor, run.run, more, cursors]),
  });
  if (!answer.ok) throw new Error(`News: ${answer.status}`);
  return answer.json();
}

/** Why no news of a run come. @param {string} alone what becomes of a run whose page cannot reach the server */
export async function whyNoNews(alone) {
  const health = await fetch("health", { cache: "no-store" }).catch(() => null);
  return health?.ok
    ? { isServing: true, title: "No news of the run", text: BLOCKED }
    : { isServing: false, title: "Connection lost", text: `Trying again. ${alone}` };
}

/** A run's status in words, and how far it is. @param {string} name of the progress bar @param {string} id beginning of the ids @param {string} hello before the first run */
export function statusLine(name, id, hello) {
  const title = el("p.b-status", { role: "status", id: `${id}-status` }, "No run yet"),
    reason = el("p.b-reason", { dir: "auto" }, hello),
    of = el("p.b-empty.b-status-of", { id: `${id}-of`, hidden: "" }),
    line = el("div.b-status-line", title, reason, of),
    bar = progress(name);
  return {
    line,
    bar,
    /** The status decides the title's colour. @param {string} words @param {string} text @param {string} [status] */
    say(words, text, status = "") {
      title.textContent = words;
      reason.textContent = text;
      title.dataset.status = status;
    },
    /** Name the run where the page shows another model. @param {string} [key] of the run @param {string} [run] */
    name(key, run) {
      of.hidden = !key || key === question.model;
      if (!of.hidden) of.textContent = `This is “${run}”; the model chosen above is another one.`;
    },
  };
}

/** Status in words, progress bar and numbers. @param {HTMLElement} root */
function dashboard(root) {
  const { line, bar, say, name } = statusLine("Training progress", "run", HELLO);
  const names = {
    step: "Step",
    mlm: "MLM loss, this step",
    nsp: "NSP loss, this step",
    left: "Time left",
    rate: "Tokens per second",
    device: "Device",
  };
  const tiles = Object.fromEntries(Object.keys(names).map((key) => [key, el("dd", { id: `run-${key}` }, "–")]));
  const facts = Object.entries(names).map(([key, text]) => el("div", el("dt", text), tiles[key]));
  root.append(line, bar.element, el("dl.b-tiles", facts));
  let device = "";
  return {
    line,
    say,
    name,
    begin(run) {
      for (const tile of Object.values(tiles)) tile.textContent = "–";
      device = tiles.device.textContent = run.device;
    },
    /** @param {any} news @param {string} verdict on an ended run */
    show({ status, reason, step, steps, left, rate, precision, last }, verdict) {
      say(STATUS_NAMES[status], reason || NEXT[status] || verdict, status);
      bar.show(steps ? step / steps : 0);
      tiles.step.textContent = `${count(step)} of ${count(steps)}`;
      tiles.left.textContent = hasEnded(status) ? "–" : duration(left);
      tiles.rate.textContent = rate ? count(Math.round(rate)) : "–";
      if (precision) tiles.device.textContent = `${device}, ${precision}`;
      if (!last) return;
      const [, mlm, nsp] = last;
      tiles.mlm.textContent = loss(mlm);
      tiles.nsp.textContent = loss(nsp);
    },
  };
}

/** @typedef {{visitor: string, run: string, title: string, device: string, steps: number, isSlow: boolean}} ShownRun */

class RunMonitor {
  /** @type {ShownRun | null} */
  run = null;
  /** @type {string | null} */
  visitor = null;
  cursors = FIRST;
  status = "";
  /** The newest answer of the server. @type {any} */
  newest = null;
  isLost = false;
  isBlocked = false; // the server answers, but no news come
  /** The step that the time slider selects; null is live. @type {number | null} */
  selected = null;
  eager = 0; // polls to send quickly
  pollMs = EAGER_MS; // until the next poll, as the server asks
  // Step of the model whose guesses are shown, and when the page may request the next ones.
  guessed = -1;
  isGuessing = false;
  nextGuess = 0;
  verdict = "";

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { trigger, server, options }) {
    this.trigger = trigger;
    this.server = server;
    this.options = options;
    this.board = dashboard(root);
    this.next = nextStep(this.board.line, options.story, (advice, steps) =>
      trigger(advice, { run: this.run?.run, steps }),
    );
    const sides = el("div.b-watch");
    root.append(sides);
    this.chart = curves(sides, options, { more: () => this.refetch(), file: (kind) => this.save(kind) });
    this.table = guessBoard(sides);
    this.poll = polling(() => this.ask(), HIDDEN_MS);
    const guesses = /** @type {HTMLElement} */ (sides.lastElementChild);
    this.showStep = asking(guesses, async (/** @type {ShownRun} */ run) => {
      const answer = await server.guesses(run.run, this.selected, false);
      if (run === this.run && !answer.error) this.table.show(answer);
    });
    on("elsewhere", () => trigger("elsewhere"));
    on("limits", () => trigger("limits"));
    on("fill", (values) => trigger("fill", { values }));
    on("question", ({ changed }) => {
      if (changed.has("model")) this.board.name(this.run?.run, this.run?.title);
      if (!this.run || question.model !== this.run.run || !changed.has("step") || question.step === this.selected)
        return;
      this.selected = question.step;
      this.chart.mark(this.selected);
      this.showStep(this.run);
    });
    on("verdict", ({ run: of, step, text, advice }) => {
      const { newest } = this;
      if (of !== this.run?.run || !newest || !hasEnded(newest.status)) return;
      if (step !== null && step !== newest.step) return; // of an earlier step, which is not what has become of the run
      this.verdict = text;
      this.board.show(newest, text);
      this.next.show(newest, advice);
    });
    tabs.addEventListener("message", ({ data }) => {
      if (data === this.visitor) trigger("elsewhere");
    });
  }

  /** @param {any} value */
  draw(value) {
    this.visitor = value?.visitor ?? null;
    if (!value?.run) {
      if (this.run) this.end();
      runs.show(this.visitor, null);
      return;
    }
    if (this.run?.run !== value.run) this.begin(value);
    else if (this.run) this.run.isSlow = value.isSlow;
    if (this.isBlocked) return this.board.say(STATUS_NAMES[value.status], BLOCKED, value.status);
    this.eager = EAGER_POLLS;
    this.poll();
  }

  /** Show another run. @param {ShownRun} run */
  begin(run) {
    tabs.postMessage(this.visitor);
    Object.assign(this, {
      run,
      cursors: FIRST,
      selected: null,
      status: "",
      newest: null,
      guessed: -1,
      nextGuess: 0,
      verdict: "",
    });
    this.board.begin(run);
    this.board.name(run.run, run.title);
    this.chart.begin(run);
    this.table.begin();
    this.next.show(null);
    runs.show(this.visitor, run.run);
  }

  /** The last run was removed. */
  end() {
    this.run = null;
    this.board.name();
    this.board.begin({ device: "–" });
    this.board.say("No run yet", HELLO);
    this.chart.begin(null);
    this.table.begin();
    this.next.show(null);
  }

  /** Get all points again. */
  refetch() {
    this.cursors = [0, ...this.cursors.slice(1)];
    this.poll();
  }

  /** Get what is new; the answer is when to ask again. */
  async ask() {
    const { run, chart } = this,
      { more } = chart;
    if (!run) return undefined;
    if (chart.points.length > MOST_POINTS) {
      this.cursors = [0, ...this.cursors.slice(1)];
      chart.restart();
    }
    try {
      const fresh = await news(run, more, this.cursors);
      if (this.isLost) announce("again", null);
      this.isLost = this.isBlocked = false;
      if (run !== this.run || more !== chart.more) return 0;
      this.take(run, fresh);
    } catch (error) {
      await this.lose();
      return RETRY_MS;
    }
    this.eager = Math.max(0, this.eager - 1);
    return this.eager ? Math.min(EAGER_MS, this.pollMs) : this.pollMs;
  }

  /** No news come. */
  async lose() {
    this.isLost = true;
    const { isServing, title, text } = await whyNoNews(this.options.alone);
    if (!this.isBlocked || !isServing) this.board.say(title, text);
    this.isBlocked = isServing;
    if (isServing) this.trigger("status"); // the buttons follow the run nevertheless
  }

  /** @param {ShownRun} run @param {any} news */
  take(run, news) {
    const { board, chart } = this;
    if (news.error) {
      const known = this.newest ? ` Its last known step was ${count(this.newest.step)}. ${this.options.losses}` : "";
      board.say("Run not found", news.error + known);
      this.run = null;
      this.trigger("status");
      return;
    }
    announce("news", null);
    this.newest = news;
    this.cursors = news.cursors;
    this.pollMs = news.poll_ms;
    if (news.steps !== run.steps) {
      run.steps = news.steps;
      chart.change({ run });
    }
    board.show(news, this.verdict);
    chart.add(news.points);
    if (news.held) chart.hold(news.held);
    if (news.snapshots.length) announce("snapshots", { run: run.run, steps: news.snapshots });
    if (news.status !== this.status) this.turn(run, news);
    this.guess(run);
  }

  /** The run has another status. @param {ShownRun} run @param {any} news */
  turn(run, news) {
    const { status } = news;
    this.status = status;
    this.verdict = "";
    this.next.show(news);
    announce("status", null);
    runs.show(this.visitor, run.run);
    this.trigger("status");
  }

  /** Request the guesses of the newest model when it is time for them, and those of an ended run at once. @param {ShownRun} run */
  async guess(run) {
    const isFirst = this.guessed < 0,
      isOver = hasEnded(this.status),
      began = performance.now();
    if (this.isGuessing || this.cursors[1] <= this.guessed || (this.selected !== null && !isFirst)) return;
    if (!isOver && !run.isSlow && (!this.cursors[0] || began < this.nextGuess)) return;
    this.isGuessing = true;
    try {
      const answer = await this.server.guesses(run.run, null, isFirst);
      if (run !== this.run || answer.error) return;
      this.guessed = answer.step;
      if (answer.baselines) this.chart.change({ baselines: answer.baselines });
      if (this.selected === null || isFirst) this.table.show(answer);
    } catch (error) {
      console.warn(error);
    } finally {
      const now = performance.now();
      this.isGuessing = false;
      this.nextGuess = now + Math.max(GUESS_POLLS * this.pollMs, (now - began) / GUESS_FRACTION);
    }
    if (this.run && hasEnded(this.status) && !isOver) this.guess(this.run);
  }

  /** Save the curves. @param {string} kind */
  async save(kind) {
    if (!this.run) return say("There is no run yet; press Start.");
    this.chart.save(kind, await orError(this.server.table(this.run.run, kind)));
  }
}

/** @type {View} */
export const view = (root, context) => draws(new RunMonitor(root, context));
