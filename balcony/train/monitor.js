// One training run, live: its numbers, its curves, its guesses, and what to do after it.

import { row, table } from "../controls.js";
import { button, changes, disable, draws, el, fill, withTerms } from "../parts/elements.js";
import { firstRight, NO_EARLIER_STEPS } from "../parts/first_right.js";
import { count, duration, loss, percent } from "../parts/numbers.js";
import { announce, choice, on, orError, say } from "../frame/page.js";
import { onPart, openTab, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { saveFile } from "../parts/downloads.js";
import { Curves } from "./curves.js";
import { follow, statusLine } from "../compare/live_run.js";
import { hasEnded, runs, STATUS_NAMES } from "../compare/runs.js";

// What to do next, if the run gives no reason.
const NEXT = { paused: "One step trains a single step, Resume continues." };
/** @type {[status: string, reason: string]} */
const NONE = [
  "No run yet",
  "BERT is a model that learns to fill in hidden words. Press Start to train a small one of your own. The pale curves are those of an earlier run.",
];
const GUESS_FRACTION = 1 / 10; // of the time that the page waits for guesses
const TITLE = "Guesses for hidden words";
const HINT = "A few sentences with a hidden word appear here; the guesses change as the model learns.";

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
    /** @param {string} of the device */
    begin(of) {
      for (const tile of Object.values(tiles)) tile.textContent = "–";
      device = tiles.device.textContent = of;
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

/** A few sentences with a masked word; the guess in each changes while the model learns. @param {HTMLElement} root */
export function guessBoard(root) {
  const caption = el("caption", TITLE),
    unseen = el("span.b-unseen", "Right or wrong"),
    empty = el("p.b-empty", HINT),
    names = ["Sentence", "Guess", "Probability", unseen],
    shown = table(names, [], { class: "b-table b-guess-table", id: "run-guesses", caption, numbers: 2 }),
    body = shown.tBodies[0],
    unknown = el("p.b-empty", { hidden: "" }, NO_EARLIER_STEPS);
  root.append(el("div.b-guess-frame", shown, unknown, empty));
  shown.hidden = true;

  /** @type {[before: string, answer: string, after: string, pair: string, number: number][]} */
  let known = [];
  /** For each sentence the kept step at which it was first right, null for none. @type {(number | null)[]} */
  let steps = [];
  let model = "";
  const line = ([guess, probability, isRight], /** @type {number} */ k) => {
    const [before, answer, after, pair, number] = known[k],
      // What Masked words then asks, since the same word in another sentence or pair may be right at another step.
      asked = { text: before + answer + after, pair, hidden: [number] },
      sentence = el("td", { dir: "auto", translate: "no" }, before, el("mark", answer), after),
      first = steps[k] ?? null,
      mark = el("td.b-mark", isRight ? "✓ right" : "✗ wrong"),
      cells = [
        sentence,
        el("td.b-guess-word", el("bdi", guess), first !== null && firstRight(model, first, asked)),
        el("td.b-number", percent(probability)),
        mark,
      ];
    return row(cells, { "data-right": Boolean(isRight) });
  };

  return {
    /** @param {string} [run] */
    begin(run = "") {
      model = run;
      shown.hidden = unknown.hidden = true;
      steps = [];
      empty.hidden = false;
      fill(body);
    },
    /** sentences: with the first guesses. step: of the model that guessed. first_right: with those of the newest model. */
    show({ sentences, words, step, first_right: first }) {
      if (first !== undefined) {
        steps = first ?? [];
        unknown.hidden = first !== null;
        announce("right", { tab: "train", model, steps: steps.flatMap((step) => step ?? []) });
      }
      caption.textContent = `${TITLE} at step ${count(step)}`;
      known = sentences ?? known;
      fill(body, words.map(line));
      shown.hidden = false;
      empty.hidden = true;
    },
  };
}

/**
 * More steps, and one thing to do next.
 * @param {HTMLElement} root @param {[tab: string, text: string][]} story what to do next, in which tab
 * @param {(steps: number) => void} train goes on
 */
function nextStep(root, story, train) {
  let isOver = false,
    at = 0, // the step at which the run has ended
    left = 0; // steps of the run that it has not done
  const seen = new Set(), // tabs
    next = () => story.find(([tab]) => !seen.has(tab));
  const go = button("", () => openTab({ tab: next()?.[0] }), { id: "next-step" }),
    steps = el("input", { type: "number", min: 1, "aria-label": "More steps", id: "more-steps", oninput: name }),
    longer = button("", () => train(Number(steps.value)), { id: "go-on" }),
    line = el("p.b-next-line", steps, longer, go);
  root.append(line);
  function name() {
    const { value, validity } = steps,
      isRest = left > 0 && Number(value) === left;
    longer.textContent = isRest
      ? `Train the remaining ${count(left)} steps`
      : `Train ${count(Number(value))} more steps`;
    disable(longer, !(value && validity.valid) && "Type a number of steps.");
  }
  function paint() {
    const to = next();
    go.textContent = to?.[1] ?? "";
    line.hidden = !isOver;
    go.hidden = !to;
  }
  onPart(["tab"], () => {
    seen.add(question.tab);
    paint();
  });
  paint();
  return {
    /** @param {{status: string, step: number, steps: number} | null} [news] of the run @param {boolean} [hasMore] whether more steps may help */
    show(news, hasMore = false) {
      isOver = news?.status === "finished" || news?.status === "stopped";
      // One of the buttons is the one to press.
      longer.className = hasMore ? "b-next" : "b-small";
      go.className = hasMore ? "b-small" : "b-next";
      paint();
      if (news?.step === at) return; // what a person has typed stays
      at = news?.step ?? 0;
      left = (news?.steps ?? 0) - at;
      steps.value = `${left || at}`;
      name();
    },
  };
}

/** @typedef {{visitor: string, run: string, title: string, device: string, steps: number, rate: string}} ShownRun */

class RunMonitor {
  /** @type {string | null} */
  visitor = null;
  /** The newest answer of the server. @type {any} */
  newest = null;
  /** The step that the time slider selects; null is live. @type {number | null} */
  selected = null;
  guessed = -1; // step of the newest model whose guesses were shown
  nextGuess = 0; // when the page may request guesses again
  verdict = "";
  isOtherList = changes(); // of the visitor's runs
  isOtherState = changes(); // of the buttons

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { trigger, options }) {
    this.trigger = trigger;
    this.options = options;
    this.board = dashboard(root);
    this.next = nextStep(this.board.line, options.story, (steps) => trigger("longer", { run: this.run.run, steps }));
    const sides = el("div.b-watch");
    root.append(sides);
    this.chart = new Curves(sides, options, {
      between: async (first, last) => (await answer("between", this.chart.run?.run, first, last)).points ?? [],
      file: (kind) => this.save(kind),
    });
    this.live = follow(this.board, this.chart, {
      take: (news, isOther) => this.take(news, isOther),
      lose: (run, why) => this.lose(run, why),
    });
    this.table = guessBoard(sides);
    const guesses = /** @type {HTMLElement} */ (sides.lastElementChild);
    this.guess = asking(guesses, (/** @type {ShownRun} */ run) => this.showGuesses(run));
    on("elsewhere", () => trigger("elsewhere"));
    on("limits", () => trigger("limits"));
    on("fill", (values) => trigger("fill", { values }));
    on("question", ({ changed }) => {
      if (changed.has("model")) this.board.name(this.run?.run, this.run?.title);
      if (!this.run || question.model !== this.run.run || !changed.has("step") || question.step === this.selected)
        return;
      this.selected = question.step;
      this.chart.change({ marked: this.selected });
      this.guess(this.run);
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

  /** @returns {any} a ShownRun, null for none */
  get run() {
    return this.live.run;
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
      this.run.rate = value.rate;
      if (isOther) runs.show(this.visitor, value.run);
    }
    this.allow(value.status);
    if (isOther) announce("status", null);
    this.live.hurry();
  }

  /** Let the buttons of the run be pressed, or not. @param {string} [status] none without a run */
  allow(status) {
    const { rate = "" } = this.run ?? {},
      isActive = status !== undefined && !hasEnded(status),
      pause = status === "paused" ? "Resume" : "Pause";
    if (!this.isOtherState(status, rate)) return;
    window.Balcony.buttons = [
      { interactive: !isActive }, // in the order in which balcony/train/tab.py has them
      { interactive: isActive, value: pause },
      { interactive: isActive },
      { placeholder: rate && `now ${rate}` },
    ].map((update) => ({ ...update, __type__: "update" }));
    this.trigger("status");
  }

  /** Show another run, or none. @param {ShownRun | null} run */
  show(run) {
    Object.assign(this, { selected: null, newest: null, guessed: -1, nextGuess: 0, verdict: "" });
    this.board.begin(run?.device ?? "–");
    this.board.name(run?.run, run?.title);
    this.live.show(run);
    this.table.begin(run?.run);
    this.next.show(null);
  }

  /** @param {ShownRun} run */
  begin(run) {
    choice("run", run.run);
    this.show(run);
    runs.show(this.visitor, run.run);
  }

  /** The last run was removed. */
  end() {
    this.show(null);
    this.board.say(...NONE);
  }

  /** The server has no such run. @param {string} run @param {string} why */
  lose(run, why) {
    if (runs.removed.has(run)) return this.end();
    this.next.show(null);
    this.board.say("Run not found", `${why} ${this.options.losses}`);
    this.trigger("elsewhere");
  }

  take(news, isOther) {
    const { live, next, board } = this,
      { run, cursors } = live;
    announce("news", null);
    this.newest = news;
    if (isOther) {
      this.guessed = Math.min(this.guessed, 0); // asked again: a run that rests tells all steps of its words
      this.verdict = "";
      next.show(news);
      runs.show(this.visitor, run.run);
    }
    board.show(news, this.verdict);
    this.allow(news.status);
    if (news.current !== run.run) this.trigger("elsewhere"); // the next one of an experiment
    const isDue = hasEnded(news.status) || (cursors[0] && performance.now() >= this.nextGuess);
    if (isDue && cursors[1] > this.guessed && (this.selected === null || this.guessed < 0)) this.guess(run);
  }

  /** Show the guesses at the selected step, and first of all those of the newest model. @param {ShownRun} run */
  async showGuesses(run) {
    const isFirst = this.guessed < 0,
      step = isFirst ? null : this.selected,
      began = performance.now();
    this.nextGuess = Infinity;
    try {
      const found = await answer("board", run.run, step, isFirst);
      if (run !== this.run || found.error) return;
      if (step === null) this.guessed = found.step;
      if (found.baselines) this.chart.change({ baselines: found.baselines });
      this.table.show(found);
      if (step !== this.selected) this.guess(run);
    } finally {
      const now = performance.now();
      this.nextGuess = now + (now - began) / GUESS_FRACTION;
    }
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
