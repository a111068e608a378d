// A run that fine-tunes, live; then what its model answers. The page polls as for the run of the Train tab.

import { button, draws, el, fill, note, notes, presses } from "../parts/elements.js";
import { KINDS } from "../parts/control.js";
import { count, duration } from "../parts/numbers.js";
import { announce, on, orError, visitor } from "../frame/page.js";
import { polling } from "../parts/polling.js";
import { ask, question } from "../frame/question.js";
import { curves } from "../train/curves.js";
import { FIRST, HIDDEN_MS, news, RETRY_MS, statusLine, whyNoNews } from "../train/monitor.js";
import { hasEnded, STATUS_NAMES } from "../compare/runs.js";
import { asking } from "../views.js";
import { answered, results, verdictOf } from "./results.js";

class FineTune {
  /** Drawn when it is visible. @type {ReturnType<typeof curves> | null} */
  chart = null;
  /** @type {string | null} */
  run = null;
  status = "";
  verdict = "";
  isBegun = false;
  wasPressed = presses("#task-start"); // Fine-tune, and the new run has not been seen yet
  cursors = FIRST;
  board = statusLine("Fine-tuning progress", "task", "Choose a task and press Fine-tune.");
  pause = button("Pause", () => this.command(this.status === "paused" ? "resume" : "pause"), { id: "task-pause" });
  stop = button("Stop", () => this.command("stop"), { id: "task-stop" });
  drawing = el("div");
  judged = el("div", { id: "task-results" });
  panel = results(this.judged);
  answer = el("div", { id: "task-answer", "aria-live": "polite" });
  choices = KINDS.lines({ label: "Choices, one on each line" }, "", (choices) => ask({ choices }));
  lines = el("div.b-control", this.choices.parts);
  trial = el("section.b-card", el("h3", "Try it: the sentences above"), this.lines, this.answer);

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { server, options }) {
    this.server = server;
    this.options = options;
    const { board, pause, stop, drawing, trial, judged, lines } = this;
    board.line.append(pause, stop);
    for (const part of [board.bar.element, drawing, trial, pause, stop, lines]) part.hidden = true;
    root.append(board.line, board.bar.element, trial, drawing, judged);
    this.judge = asking(judged, () => this.showResults());
    this.attempt = asking(this.answer, () => this.showAnswer());
    this.poll = polling(() => this.ask(), HIDDEN_MS);
    on("question", ({ changed }) => {
      if (["model", "step", "tab"].some((part) => changed.has(part))) this.judge();
      else if (["text", "pair", "choices"].some((part) => changed.has(part))) this.attempt();
    });
  }

  /** @param {{run: string | null} | null} shown */
  draw(shown) {
    if (shown?.run && shown.run !== this.run) {
      Object.assign(this, { run: shown.run, cursors: FIRST, status: "", verdict: "", isBegun: false });
      this.board.bar.element.hidden = this.drawing.hidden = false;
    }
    this.judge();
    this.poll();
  }

  /** @param {string} what */
  async command(what) {
    const { error } = await orError(this.server.command(this.run, what));
    if (error) this.board.say(STATUS_NAMES[this.status], error, this.status);
    await this.poll();
  }

  /** Get what is new; the answer is when to ask again. */
  async ask() {
    const { run } = this;
    if (!run) return undefined;
    try {
      const fresh = await news({ visitor: visitor.token, run }, false, this.cursors);
      if (run === this.run) this.take(run, fresh);
      return this.run ? fresh.poll_ms : undefined;
    } catch (error) {
      const { title, text } = await whyNoNews(this.options.alone);
      this.board.say(title, text);
      return RETRY_MS;
    }
  }

  /** @param {string} run @param {any} fresh */
  take(run, { error, cursors, status, reason, step, steps, left, points, held, snapshots }) {
    if (error) {
      this.run = null;
      this.board.say("Run not found", error);
      announce("failed", null);
      return;
    }
    const { board, pause, stop } = this;
    this.cursors = cursors;
    const far = `Training step ${count(step)} of ${count(steps)}${left ? `, about ${duration(left)} left` : ""}`;
    board.say(STATUS_NAMES[status], reason || this.verdict || far, status);
    board.bar.show(steps ? step / steps : 0);
    pause.hidden = stop.hidden = hasEnded(status);
    pause.textContent = status === "paused" ? "Resume" : "Pause";
    const chart = (this.chart ??= curves(this.drawing, this.options));
    if (!this.isBegun && status !== "queued") {
      this.isBegun = true;
      chart.begin({ run, steps });
    }
    chart.add(points);
    if (held) chart.hold(held);
    if (snapshots.length) announce("snapshots", { run, steps: snapshots });
    if (status === this.status) return;
    if (!this.status && this.wasPressed()) board.line.scrollIntoView({ block: "nearest" });
    this.status = status;
    announce("status", null);
    if (status === "paused" || hasEnded(status)) this.judge();
  }

  async showResults() {
    if (question.tab !== "fine-tune") return;
    await visitor.known;
    const found = await this.server.results_value(question);
    this.panel.show(found);
    this.board.name(found.key, found.name);
    this.verdict = found.key === this.run ? verdictOf(found) : "";
    if (this.verdict && this.status === "finished") this.board.say(STATUS_NAMES.finished, this.verdict, "finished");
    this.trial.hidden = !found.key;
    this.lines.hidden = found.task !== "multiple-choice";
    await this.attempt();
  }

  async showAnswer() {
    if (question.tab !== "fine-tune" || this.trial.hidden) return;
    const found = await this.server.tried_value(question);
    this.choices.show(question.choices ?? [], {});
    if (found.error) fill(this.answer, note(found.error, true));
    else if (found.hint) fill(this.answer, el("p.b-empty", found.hint));
    else fill(this.answer, answered(found), notes(found.notes ?? []));
  }
}

/** @type {View} */
export const view = (root, context) => draws(new FineTune(root, context));
