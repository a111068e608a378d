// A run that fine-tunes, live; then what its model answers.

import { button, draws, el, fill, note, notes, presses } from "../parts/elements.js";
import { KINDS } from "../parts/control.js";
import { count, duration } from "../parts/numbers.js";
import { announce, on, orError, say } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { Curves } from "../train/curves.js";
import { follow, statusLine } from "../compare/live_run.js";
import { hasEnded, runs, STATUS_NAMES } from "../compare/runs.js";
import { asking } from "../views.js";
import { answered, showResults, windowsPanel } from "./results.js";

const CHOOSE = "Choose a task and press Fine-tune.";
const JUDGING = "The model answers the examples that it has not learned from …";

class FineTune {
  wasPressed = presses("#task-start"); // Fine-tune, and the new run has not been seen yet
  stop = button("Stop", () => this.end(), { id: "task-stop" });
  board = statusLine("Fine-tuning progress", "task");
  drawing = el("div");
  judged = el("div", { id: "task-results" });
  answer = el("div", { id: "task-answer", "aria-live": "polite" });
  choices = KINDS.lines({ label: "Choices, one on each line" }, "", (choices) => ask({ choices }));
  lines = el("div.b-control", this.choices.parts);
  trial = el("section.b-card", el("h3", "Try it: the sentences above"), this.lines, this.answer);

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options }) {
    this.windows = windowsPanel(options.windows);
    this.trial.append(this.windows.element);
    const { board, stop, drawing, trial, judged, lines } = this;
    this.live = follow(board, new Curves(drawing, options), {
      take: (news, isOther) => this.take(news, isOther),
      lose: (_, why) => {
        board.say("Run not found", why);
        announce("failed", null);
      },
    });
    board.say("", CHOOSE);
    board.line.append(stop);
    for (const part of [board.bar, drawing, trial, stop, lines]) part.hidden = true;
    root.append(board.line, board.bar, trial, drawing, judged);
    this.judge = asking(judged, () => this.showResults());
    this.attempt = asking(this.answer, () => this.showAnswer());
    on("question", ({ changed }) => {
      if (["model", "step", "tab"].some((part) => changed.has(part))) this.judge();
      else if (["text", "pair", "choices"].some((part) => changed.has(part))) this.attempt();
    });
  }

  /** @param {{visitor: string, run: string | null} | null} shown */
  draw(shown) {
    if (shown?.run && shown.run !== this.live.run?.run) {
      this.live.show(shown);
      this.board.bar.hidden = this.drawing.hidden = false;
    }
    this.judge();
    this.live.poll();
  }

  async end() {
    const { run, status, poll } = this.live,
      { error } = await orError(answer("stop", run?.run));
    if (error) this.board.say(STATUS_NAMES[status], error, status);
    await poll();
  }

  /** @param {string} run */
  async remove(run) {
    const { error } = await orError(answer("remove", run));
    if (error) return say(error);
    if (run === this.live.run?.run) {
      this.live.show(null);
      this.board.say("Removed", CHOOSE);
      this.board.bar.hidden = this.drawing.hidden = true;
    }
    runs.remove(run);
    announce("status", null);
    await this.judge();
  }

  take({ status, reason, step, steps, left }, isOther) {
    const { board, stop } = this;
    const far = `Training step ${count(step)} of ${count(steps)}${left ? `, about ${duration(left)} left` : ""}`;
    board.say(STATUS_NAMES[status], reason || far, status);
    board.bar.value = steps ? step / steps : 0;
    stop.hidden = hasEnded(status);
    if (!isOther) return;
    if (this.wasPressed()) board.line.scrollIntoView({ block: "nearest" });
    if (!hasEnded(status)) return;
    fill(this.judged, el("p.b-empty", { role: "status" }, JUDGING));
    this.judge();
  }

  async showResults() {
    if (question.tab !== "fine-tune") return;
    const found = await answer("results_value");
    showResults(this.judged, found, (run) => this.remove(run));
    this.board.name(found.key, found.name);
    this.trial.hidden = !found.key;
    this.lines.hidden = found.task !== "multiple-choice";
    await this.attempt();
  }

  async showAnswer() {
    if (question.tab !== "fine-tune" || this.trial.hidden) return;
    const [found, windows] = await Promise.all([answer("tried_value"), answer("windows_value")]);
    this.windows.show(windows.rows);
    this.choices.show(question.choices ?? [], {});
    if (found.error) fill(this.answer, note(found.error, true));
    else if (found.hint) fill(this.answer, el("p.b-empty", found.hint));
    else fill(this.answer, answered(found), notes(found.notes ?? []));
  }
}

/** @type {View} */
export const view = (root, context) => draws(new FineTune(root, context));
