// One training run, live: its numbers, its curves, its guesses, and what to do after it.

import { changes, draws, el, fill, withTerms } from "../parts/elements.js";
import { count, duration, loss } from "../parts/numbers.js";
import { announce, choice, on, orError, say } from "../frame/page.js";
import { question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { saveFile } from "../parts/downloads.js";
import { Curves } from "./curves.js";
import { guessBoard } from "./guess_board.js";
import { nextStep } from "./next_step.js";
import { LiveRun, statusLine } from "../compare/live_run.js";
import { hasEnded, runs, STATUS_NAMES } from "../compare/runs.js";

// What to do next, if the run gives no reason.
const NEXT = { paused: "One step trains a single step, Resume continues." };
/** @type {[status: string, reason: string]} */
const NONE = [
  "No run yet",
  "BERT is a model that learns to fill in hidden words. Press Start to train a small one of your own. The pale curves are those of an earlier run.",
];
// The page requests guesses less often than numbers, and spends at most a twentieth of the time waiting for them.
const GUESS_POLLS = 3;
const GUESS_FRACTION = 1 / 20;

/** Status in words, progress bar and numbers. @param {HTMLElement} root */
function dashboard(root) {
  const { line, bar, say, name } = statusLine("Training progress", "run");
  const names = {
    step: "[[step|Step]]",
    mlm: "[[MLM]] [[loss]], this step",
    nsp: "[[NSP]] loss, this step",
    left: "Time left",
    rate: "[[token|Tokens]] per second",
    device: "Device",
  };
  const tiles = Object.fromEntries(Object.keys(names).map((key) => [key, el("dd", { id: `run-${key}` }, "–")]));
  const said = el("div", { id: "run-said" });
  const facts = Object.entries(names).map(([key, text]) => el("div", el("dt", withTerms(text)), tiles[key]));
  say(...NONE);
  root.append(line, bar, el("dl.b-tiles", facts), said);
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
    show({ status, reason, step, steps, left, rate, precision, last, said: sentences = [] }, verdict) {
      say(STATUS_NAMES[status], reason || NEXT[status] || verdict, status);
      fill(said, ...sentences.map((/** @type {string} */ each) => el("p", each)));
      bar.value = steps ? step / steps : 0;
      tiles.step.textContent = `${count(step)} of ${count(steps)}`;
      tiles.left.textContent = hasEnded(status) ? "–" : duration(left);
      tiles.rate.textContent = rate ? count(Math.round(rate)) : "–";
      if (precision && !tiles.device.children.length)
        fill(tiles.device, withTerms(`${device}, [[float32|${precision}]]`));
      if (!last) return;
      const [, mlm, nsp] = last;
      tiles.mlm.textContent = loss(mlm);
      tiles.nsp.textContent = loss(nsp);
    },
  };
}

/** @typedef {{visitor: string, run: string, title: string, device: string, steps: number, isSlow: boolean, rate: string}} ShownRun */

class RunMonitor extends LiveRun {
  /** @type {string | null} */
  visitor = null;
  /** The newest answer of the server. @type {any} */
  newest = null;
  /** The step that the time slider selects; null is live. @type {number | null} */
  selected = null;
  pollMs = 0; // until the next poll, as the server asks
  // Step of the model whose guesses are shown, and when the page may request the next ones.
  guessed = -1;
  isGuessing = false;
  nextGuess = 0;
  verdict = "";
  isOtherList = changes(); // of the visitor's runs
  isOtherState = changes(); // of the buttons

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, context) {
    super(context, dashboard(root));
    const { trigger, options } = context;
    this.next = nextStep(this.board.line, options.story, (steps) => trigger("longer", { run: this.run?.run, steps }));
    const sides = el("div.b-watch");
    root.append(sides);
    this.chart = new Curves(sides, options, {
      between: async (first, last) => (await answer("between", this.run.run, first, last)).points ?? [],
      file: (kind) => this.save(kind),
    });
    this.table = guessBoard(sides);
    const guesses = /** @type {HTMLElement} */ (sides.lastElementChild);
    this.showStep = asking(guesses, async (/** @type {ShownRun} */ run) => {
      const found = await answer("board", run.run, this.selected, false);
      if (run === this.run && !found.error) this.table.show(found);
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
    on("verdict", ({ run: of, step, text, hasMore }) => {
      const { newest } = this;
      if (of !== this.run?.run || !newest || !hasEnded(newest.status)) return;
      if (step !== null && step !== newest.step) return; // of an earlier step, which is not what has become of the run
      this.verdict = text;
      this.board.show(newest, text);
      this.next.show(newest, hasMore);
    });
    // Another tab of this browser shows another run.
    addEventListener("storage", ({ key }) => key === "balcony-run" && trigger("elsewhere"));
  }

  draw(value) {
    this.visitor = value?.visitor ?? null;
    if (!value?.run) {
      if (this.run) this.end();
      this.allow();
      runs.show(this.visitor, null);
      return;
    }
    const isOther = this.isOtherList(value.listed);
    if (this.run?.run !== value.run) this.begin(value);
    else {
      Object.assign(this.run, { isSlow: value.isSlow, rate: value.rate });
      if (isOther) runs.show(this.visitor, value.run);
    }
    this.allow(value.status);
    if (isOther) announce("status", null);
    this.hurry();
  }

  /** Let the buttons of the run be pressed, or not. @param {string} [status] none without a run */
  allow(status) {
    const { isSlow = false, rate = "" } = this.run ?? {},
      isActive = status !== undefined && !hasEnded(status),
      pause = status === "paused" ? "Resume" : "Pause";
    if (!this.isOtherState(status, isSlow, rate)) return;
    window.Balcony.buttons = [
      { interactive: !isActive }, // in the order in which balcony/train/tab.py has them
      { interactive: isActive, value: pause },
      { interactive: isActive },
      { interactive: isActive && isSlow },
      { placeholder: rate && `now ${rate}` },
    ].map((update) => ({ ...update, __type__: "update" }));
    this.trigger("status");
  }

  /** Show another run. @param {ShownRun} run */
  begin(run) {
    choice("run", run.run);
    this.follow(run, { selected: null, newest: null, guessed: -1, nextGuess: 0, verdict: "" });
    this.board.begin(run);
    this.board.name(run.run, run.title);
    this.chart.begin(run);
    this.table.begin(run.run);
    this.next.show(null);
    runs.show(this.visitor, run.run);
  }

  /** The last run was removed. */
  end() {
    this.run = null;
    this.board.name();
    this.board.begin({ device: "–" });
    this.board.say(...NONE);
    this.chart.begin(null);
    this.table.begin();
    this.next.show(null);
  }

  /** @param {string} why */
  lose(why) {
    if (runs.removed.has(this.run.run)) return this.end();
    const known = this.newest ? ` Its last known step was ${count(this.newest.step)}. ${this.options.losses}` : "";
    super.lose(why + known);
    this.trigger("elsewhere");
  }

  take(news) {
    const { run, chart, status } = this;
    announce("news", null);
    this.newest = news;
    this.pollMs = news.poll_ms;
    if (news.steps !== run.steps) {
      run.steps = news.steps;
      chart.change({ run });
    }
    this.board.show(news, this.verdict);
    super.take(news);
    if (news.status !== status) {
      this.guessed = Math.min(this.guessed, 0); // asked again: a run that rests tells all steps of its words
      this.verdict = "";
      this.next.show(news);
      runs.show(this.visitor, run.run);
    }
    this.allow(news.status);
    if (news.current !== run.run) this.trigger("elsewhere"); // the next one of an experiment
    this.guess(run);
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
      const found = await answer("board", run.run, null, isFirst);
      if (run !== this.run || found.error) return;
      this.guessed = found.step;
      if (found.baselines) this.chart.change({ baselines: found.baselines });
      if (this.selected === null || isFirst) this.table.show(found);
    } catch (error) {
      console.warn(error);
    } finally {
      const now = performance.now();
      this.isGuessing = false;
      this.nextGuess = now + Math.max(GUESS_POLLS * this.pollMs, (now - began) / GUESS_FRACTION);
    }
    if (this.run && hasEnded(this.status) && !isOver) this.guess(this.run);
  }

  /** Save the curves, or the run. @param {string} kind */
  async save(kind) {
    if (!this.run) return say("There is no run yet; press Start.");
    const found = await orError(answer("saved", this.run.run, kind));
    if (found.path) await saveFile(found);
    else this.chart.save(kind, found);
  }
}

/** @type {View} */
export const view = (root, context) => draws(new RunMonitor(root, context));
