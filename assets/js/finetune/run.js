// A run that fine-tunes, live; then what its model answers. The page polls as for the run of the Train tab.

import { el, note } from "../parts/elements.js";
import { count, duration } from "../parts/numbers.js";
import { announce, latest, on, orError, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { curves } from "../train/curves.js";
import { news, whyNoNews } from "../train/monitor.js";
import { hasEnded, STATUS_NAMES } from "../train/runs.js";
import { asking } from "../views.js";
import { answered, results } from "./results.js";

const FIRST = [0, -1, 0];
const RETRY_MS = 2000;
const HIDDEN_MS = 60000; // a hidden page only renews the lease
const TYPING_MS = 300;

/** @type {View} */
export function view(root, { server, options }) {
  const status = el("p", { class: "b-status", role: "status", id: "task-status" }, "No run yet");
  const reason = el("p", { class: "b-reason", dir: "auto" }, "Choose a task and press Fine-tune.");
  const fill = el("span", { class: "b-bar-fill" });
  const bar = el(
    "div",
    {
      class: "b-bar b-progress",
      role: "progressbar",
      "aria-label": "Fine-tuning progress",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    fill,
  );
  const pause = button("task-pause", "Pause", () => command(state === "paused" ? "resume" : "pause"));
  const stop = button("task-stop", "Stop", () => command("stop"));
  const drawing = el("div", {}),
    judged = el("div", { id: "task-results" });
  const choices = el("textarea", {
    id: "task-choices",
    rows: 4,
    "aria-label": "Choices, one on each line",
    placeholder: "Choices, one on each line",
  });
  const answer = el("div", { id: "task-answer", "aria-live": "polite" });
  const trial = el("section", { class: "b-card" }, el("h3", {}, "Try it: the sentences above"), choices, answer);
  root.append(el("div", { class: "b-status-line" }, status, reason, pause, stop), bar, drawing, trial, judged);
  const panel = results(judged);
  /** @type {ReturnType<typeof curves> | null} */
  let chart = null; // drawn when it is visible
  /** @type {string | null} */
  let run = null;
  let state = "",
    begun = false,
    timer = 0,
    typing = 0;
  let cursors = [...FIRST];
  bar.hidden = drawing.hidden = trial.hidden = pause.hidden = stop.hidden = choices.hidden = true;

  /** @param {string} id @param {string} name @param {() => void} press */
  function button(id, name, press) {
    const item = el("button", { id, class: "b-small-button" }, name);
    item.addEventListener("click", press);
    return item;
  }

  /** @param {string} what */
  async function command(what) {
    const done = await orError(server.command(visitor.token, run, what));
    if (done.error) reason.textContent = done.error;
    await poll();
  }

  const poll = latest(async () => {
    clearTimeout(timer);
    if (!run) return;
    const asked = run;
    let wait = RETRY_MS;
    try {
      const fresh = await news({ visitor: visitor.token, run }, false, cursors);
      if (asked !== run) return;
      take(fresh);
      wait = document.visibilityState === "visible" ? fresh.poll_ms : HIDDEN_MS;
    } catch (error) {
      const { title, text } = await whyNoNews(options.alone);
      status.textContent = title;
      reason.textContent = text;
    }
    if (run) timer = setTimeout(poll, wait);
  });

  function take(fresh) {
    if (fresh.error) {
      run = null;
      status.textContent = "Run not found";
      reason.textContent = fresh.error;
      announce("failed", null);
      return;
    }
    cursors = fresh.cursors;
    status.textContent = STATUS_NAMES[fresh.status];
    status.dataset.status = fresh.status;
    reason.textContent =
      fresh.reason ||
      `Step ${count(fresh.step)} of ${count(fresh.steps)}${fresh.left ? `, about ${duration(fresh.left)} left` : ""}`;
    fill.style.width = `${fresh.steps ? (100 * fresh.step) / fresh.steps : 0}%`;
    bar.setAttribute("aria-valuenow", `${Math.round(fresh.steps ? (100 * fresh.step) / fresh.steps : 0)}`);
    pause.hidden = stop.hidden = hasEnded(fresh.status);
    pause.textContent = fresh.status === "paused" ? "Resume" : "Pause";
    chart ||= curves(drawing, options);
    if (!begun && fresh.status !== "queued") {
      begun = true;
      chart.begin({ run, steps: fresh.steps });
    }
    chart.add(fresh.points);
    if (fresh.held) chart.hold(fresh.held);
    if (fresh.snapshots.length) announce("snapshots", { run: /** @type {string} */ (run), steps: fresh.snapshots });
    if (fresh.status === state) return;
    state = fresh.status;
    announce("status", null);
    if (state === "paused" || hasEnded(state)) judge();
  }

  /** What the server gets. */
  const value = () => ({ ...question, hidden: question.hidden ?? [] });

  const judge = asking(judged, async () => {
    if (question.tab !== "fine-tune") return;
    await visitor.known;
    const found = await server.results_value(visitor.token, value());
    panel.show(found);
    trial.hidden = !found.key;
    choices.hidden = found.task !== "multiple-choice";
    await attempt();
  });

  const attempt = asking(answer, async () => {
    if (question.tab !== "fine-tune" || trial.hidden) return;
    const found = await server.tried_value(visitor.token, value());
    if (document.activeElement !== choices) choices.value = (question.choices ?? []).join("\n");
    answer.replaceChildren(
      ...(found.error
        ? [note(found.error, true)]
        : found.hint
          ? [el("p", { class: "b-empty" }, found.hint)]
          : [...answered(found), ...(found.notes ?? []).map((text) => note(text))]),
    );
  });

  choices.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => ask({ choices: choices.value.split("\n").filter((line) => line.trim()) }), TYPING_MS);
  });
  on("question", ({ changed }) => {
    if (["model", "step", "tab"].some((part) => changed.has(part))) judge();
    else if (["text", "pair", "choices"].some((part) => changed.has(part))) attempt();
  });

  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "visible") poll().catch(console.warn);
  });

  return function draw(/** @type {{run: string | null} | null} */ shown) {
    if (shown?.run && shown.run !== run) {
      run = shown.run;
      cursors = [...FIRST];
      state = "";
      begun = false;
      bar.hidden = drawing.hidden = false;
    }
    judge();
    poll().catch(console.warn);
  };
}
