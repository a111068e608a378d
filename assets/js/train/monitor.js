// One training run, live. The page polls with its cursors and gets what is new: a few numbers and never the whole curve,
// so that many pages cost the server little, and zoom and hover survive.

import { el } from "../parts/elements.js";
import { count, duration } from "../parts/numbers.js";
import { announce, on, orError, tabs } from "../frame/page.js";
import { save as saveFile } from "../parts/downloads.js";
import { question } from "../frame/question.js";
import { asking } from "../views.js";
import { curves } from "./curves.js";
import { guessBoard } from "./guess_board.js";
import { nextStep, stillFalls } from "./next_step.js";
import { hasEnded, runs, STATUS_NAMES } from "./runs.js";

// What to do next, if the run gives no reason.
const NEXT = { paused: "Step trains one step, Resume continues." };
const BLOCKED =
  "Something between this page and the server blocks /balcony/news, such as an extension of the browser. Allow it to see the numbers; the run continues.";
const EAGER_MS = 120;
const HIDDEN_MS = 60000; // a hidden page only renews the lease
const RETRY_MS = 2000;
// The page requests guesses less often than numbers, and spends at most a twentieth of the time waiting for them.
const GUESS_POLLS = 3;
const GUESS_FRACTION = 1 / 20;
const FIRST = [0, -1, 0]; // the cursors of a new page; later ones come with each answer
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
  const isServing = await fetch("health", { cache: "no-store" }).then(
    ({ ok }) => ok,
    () => false,
  );
  return isServing
    ? { isServing, title: "No news of the run", text: BLOCKED }
    : { isServing, title: "Connection lost", text: `Trying again. ${alone}` };
}

/** Status in words, progress bar and numbers. */
function dashboard(root) {
  const status = el("p", { class: "b-status", role: "status", id: "run-status" }, "No run yet");
  const reason = el(
    "p",
    { class: "b-reason", dir: "auto" },
    "Press Start to train a model of your own. The pale curves are those of an earlier run.",
  );
  const fill = el("span", { class: "b-bar-fill" });
  fill.style.width = "0%";
  const bar = el(
    "div",
    {
      class: "b-bar b-progress",
      role: "progressbar",
      "aria-label": "Training progress",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
      "aria-valuenow": 0,
    },
    fill,
  );
  const tiles = {};
  const list = el(
    "dl",
    { class: "b-tiles" },
    ...[
      ["step", "Step"],
      ["mlm", "MLM loss"],
      ["nsp", "NSP loss"],
      ["left", "Time left"],
      ["rate", "Tokens per second"],
      ["device", "Device"],
    ].map(([key, label]) => {
      tiles[key] = el("dd", { id: `run-${key}` }, "–");
      return el("div", {}, el("dt", {}, label), tiles[key]);
    }),
  );
  root.append(el("div", { class: "b-status-line" }, status, reason), bar, list);
  let [device, advice] = ["", ""];
  return {
    /** What to say of a finished run. @param {string} text */
    advise(text) {
      if (status.dataset.status === "finished") reason.textContent = text;
      advice = text;
    },
    begin(run) {
      for (const tile of Object.values(tiles)) tile.textContent = "–";
      device = tiles.device.textContent = run.device;
    },
    /** Show a title and a sentence; the status decides the title's colour. */
    say(title, text, state) {
      status.textContent = title;
      reason.textContent = text || "";
      status.dataset.status = state || "";
    },
    show(news) {
      this.say(STATUS_NAMES[news.status], news.reason || NEXT[news.status] || advice, news.status);
      const fraction = news.steps ? news.step / news.steps : 0;
      fill.style.width = `${fraction * 100}%`;
      bar.setAttribute("aria-valuenow", `${Math.round(fraction * 100)}`);
      tiles.step.textContent = `${count(news.step)} of ${count(news.steps)}`;
      tiles.left.textContent = hasEnded(news.status) ? "–" : duration(news.left);
      tiles.rate.textContent = news.rate ? count(Math.round(news.rate)) : "–";
      if (news.precision) tiles.device.textContent = `${device}, ${news.precision}`;
      if (!news.last) return;
      const [, mlm, nsp] = news.last;
      tiles.mlm.textContent = mlm === null ? "–" : mlm.toFixed(3);
      tiles.nsp.textContent = nsp === null ? "–" : nsp.toFixed(3);
    },
  };
}

/** @typedef {{visitor: string, run: string, device: string, steps: number, isSlow: boolean}} ShownRun */

/** @type {View} */
export function view(root, { trigger, server, options }) {
  const board = dashboard(root);
  const next = nextStep(/** @type {HTMLElement} */ (root.querySelector(".b-status-line")), options.story, (steps) =>
    trigger("more", { run: run?.run, steps }),
  );
  const sides = el("div", { class: "b-watch" });
  root.append(sides);
  const chart = curves(sides, options, {
    more: () => {
      cursors[0] = 0;
      later(0);
    },
    file: save,
  });
  const table = guessBoard(sides);
  /** @type {ShownRun | null} */
  let run = null;
  /** @type {string | null} */
  let visitor = null;
  let cursors = [...FIRST];
  let status = "";
  let steps = 0;
  let timer = 0;
  let isAsking = false,
    isLost = false;
  let isBlocked = false; // the server answers, but no news come
  // The step that the time slider selects; null is live.
  /** @type {number | null} */
  let selected = null;
  // Polls to send quickly after a button was pressed: its effect takes a little time.
  let eager = 0;
  let pollMs = EAGER_MS; // until the next poll, as the server asks
  // Step of the model whose guesses are shown, and when the page may request the next ones.
  let guessed = -1;
  let guessing = false;
  let nextGuess = 0;

  function pause() {
    if (eager > 0) {
      eager -= 1;
      return Math.min(EAGER_MS, pollMs);
    }
    return document.visibilityState === "visible" ? pollMs : HIDDEN_MS;
  }

  function later(milliseconds) {
    clearTimeout(timer);
    timer = setTimeout(ask, milliseconds);
  }

  async function ask() {
    if (!run || isAsking) return;
    isAsking = true;
    const asked = run;
    const more = chart.more;
    if (chart.size > MOST_POINTS) {
      cursors[0] = 0;
      chart.restart();
    }
    let wait = RETRY_MS;
    try {
      const fresh = await news(asked, more, cursors);
      if (isLost) announce("again", null);
      isLost = isBlocked = false;
      if (asked === run && more === chart.more) {
        take(asked, fresh);
        wait = pause();
      } else wait = 0;
    } catch (error) {
      isLost = true;
      const { isServing, title, text } = await whyNoNews(options.alone);
      if (!isBlocked || !isServing) board.say(title, text);
      isBlocked = isServing;
      if (isBlocked) trigger("status"); // the buttons follow the run nevertheless
    } finally {
      isAsking = false;
    }
    if (run) later(asked === run ? wait : 0);
  }

  /** @param {ShownRun} asked @param {any} news */
  function take(asked, news) {
    if (news.error) {
      const lastStep = steps ? ` Its last known step was ${count(steps)}. ${options.losses}` : "";
      board.say("Run not found", news.error + lastStep);
      run = null;
      trigger("status");
      return;
    }
    cursors = news.cursors;
    pollMs = news.poll_ms;
    steps = news.step;
    board.show(news);
    chart.add(news.points);
    if (news.held) chart.hold(news.held);
    if (news.snapshots.length) announce("snapshots", { run: asked.run, steps: news.snapshots });
    if (news.status !== status) {
      status = news.status;
      chart.whenDrawn((points) => {
        const falls = status === "finished" && stillFalls(points);
        board.advise(falls ? "The loss still falls; more steps would teach it more." : "");
        next.show(status === "finished" || status === "stopped", falls ? news.steps : 0);
      });
      announce("status", null);
      runs.show(visitor, asked.run);
      trigger("status");
    }
    guess(asked);
  }

  /** Request the guesses of the newest model when it is time for them, and those of an ended run at once. @param {ShownRun} asked */
  async function guess(asked) {
    const isFirst = guessed < 0,
      isOver = hasEnded(status),
      began = performance.now();
    if (guessing || cursors[1] <= guessed || (selected !== null && !isFirst)) return;
    if (!isOver && !asked.isSlow && (!cursors[0] || began < nextGuess)) return;
    guessing = true;
    try {
      const answer = await server.guesses(asked.visitor, asked.run, null, isFirst);
      if (asked !== run || answer.error) return;
      guessed = answer.step;
      if (answer.baselines) chart.setBaselines(answer.baselines);
      if (selected === null || isFirst) table.show(answer);
    } catch (error) {
      console.warn(error);
    } finally {
      const now = performance.now();
      guessing = false;
      nextGuess = now + Math.max(GUESS_POLLS * pollMs, (now - began) / GUESS_FRACTION);
    }
    if (run && hasEnded(status) && !isOver) guess(run);
  }

  const showStep = asking(
    /** @type {HTMLElement} */ (sides.lastElementChild),
    async (/** @type {ShownRun} */ asked, /** @type {number | null} */ step) => {
      const answer = await server.guesses(asked.visitor, asked.run, step, false);
      if (asked === run && !answer.error) table.show(answer);
    },
  );

  on("elsewhere", () => trigger("elsewhere"));

  on("question", ({ changed }) => {
    if (!run || question.model !== run.run || !changed.has("step") || question.step === selected) return;
    selected = question.step;
    chart.mark(selected);
    showStep(run, selected);
  });

  async function save(kind) {
    if (!run) {
      board.say("No file", "There is no run yet; press Start.");
      return;
    }
    const { content, title, error } = await orError(server.table(run.visitor, run.run, kind));
    if (error) board.say("No file", error);
    else if (title) chart.picture(kind, title);
    else saveFile(new Blob([content]), `curves.${kind}`);
  }

  document.addEventListener("visibilitychange", () => {
    if (run && document.visibilityState === "visible") later(0);
  });

  tabs.addEventListener("message", ({ data }) => {
    if (data === visitor) trigger("elsewhere");
  });

  return function draw(value) {
    visitor = value ? value.visitor : null;
    if (!value || !value.run) {
      run = null;
      runs.show(visitor, null);
      return;
    }
    if (!run || run.run !== value.run) {
      tabs.postMessage(visitor);
      cursors = [...FIRST];
      selected = null;
      status = "";
      steps = 0;
      guessed = -1;
      nextGuess = 0;
      run = value;
      board.begin(value);
      chart.begin(value);
      table.begin();
      next.show(false);
      runs.show(visitor, value.run);
    }
    if (run) run.isSlow = value.isSlow;
    if (isBlocked) board.say(STATUS_NAMES[value.status], BLOCKED, value.status);
    else {
      eager = 5;
      later(0);
    }
  };
}
