// The model of the page and its step: a line of words, and for a run the time slider above all tabs.
// A move goes to the server, then to the open tab as the event "model"; the latest move wins in both.

import { el } from "./elements.js";
import { count } from "./numbers.js";
import { announce, latest, meet, on, tabs } from "./page.js";

const REPLAY_MS = 250;
const MOST_STEPS = 60; // the server keeps about 40 snapshots; with more here, ask which are left

/** @typedef {{name: string, detail: string, visitor: string, run: string | null, steps: number[], at: number | null, choice?: number}} ModelLine */

/** @type {View} */
export function modelLine(root, { server }) {
  const name = el("bdi", { class: "balcony-model-name" });
  const detail = el("span", { class: "balcony-model-detail", id: "model-step" });
  const slider = el("input", { type: "range", id: "time-slider", min: 0, max: 0, step: 1, "aria-label": "Step of the run" });
  const live = el("button", { type: "button", id: "time-live", class: "balcony-small-button", title: "Follow the newest step" }, "Live");
  const replay = el("button", { type: "button", id: "time-replay", class: "balcony-small-button" }, "Replay");
  const time = el("div", { class: "balcony-time", role: "group", "aria-label": "Time" }, replay, slider, live);
  const line = el("p", { class: "balcony-model" });
  root.append(line, time);
  /** @type {ModelLine} */
  let value;
  /** @type {number[]} */
  let steps = [];
  /** @type {number | null} */
  let at = null; // null is live
  let playing = 0;
  let isWaiting = false; // for the server's answer to the person's latest move
  let choice = 0; // the server's number of the newest choice that this page knows

  function show() {
    const last = Math.max(0, steps.length - 1);
    slider.max = `${last}`;
    slider.value = `${at === null ? last : nearest(at)}`;
    slider.disabled = replay.disabled = steps.length < 2;
    const words = at === null ? (steps.length ? `step ${count(steps[last])}` : value.detail) : `step ${count(at)}`;
    slider.setAttribute("aria-valuetext", at === null ? `Live, ${words}` : words);
    live.setAttribute("aria-pressed", `${at === null}`);
    detail.textContent = value.run ? words : value.detail;
    time.style.visibility = value.run ? "visible" : "hidden";
  }

  /** @param {number} step @returns {number} */
  const nearest = (step) =>
    steps.reduce((best, other, index) => (Math.abs(other - step) < Math.abs(steps[best] - step) ? index : best), 0);

  /** @param {boolean} chosen by the person */
  const announceModel = (chosen) => announce("model", { run: value.run, step: at, chosen });

  const send = latest(async (/** @type {string | null} */ run, /** @type {number | null} */ step) => {
    const answer = await server.select(value.visitor, run, step);
    isWaiting = step !== at; // a later move is sent next
    if (run !== value.run) return;
    if (answer.error) { detail.textContent = answer.error; return; }
    choice = Math.max(choice, answer.choice);
    if (step === at) {
      // The server may have dropped this snapshot meanwhile; it then takes the nearest one.
      at = answer.at;
      if (!slider.matches(":active")) steps = answer.steps;
      show();
    }
    announceModel(true);
  });

  /** @param {number | null} step */
  function select(step) {
    at = step;
    show();
    isWaiting = true;
    send(value.run, step).catch((error) => {
      isWaiting = false;
      detail.textContent = "connection lost";
      console.warn(error);
    });
  }

  function play() {
    stop();
    let next = 0;
    replay.textContent = "Stop";
    playing = setInterval(() => {
      const isLast = next >= steps.length - 1;
      select(isLast ? null : steps[next]);
      next += 1;
      if (isLast) stop();
    }, REPLAY_MS);
  }

  function stop() {
    clearInterval(playing);
    playing = 0;
    replay.textContent = "Replay";
  }

  slider.addEventListener("input", () => {
    stop();
    const index = Number(slider.value);
    select(index === steps.length - 1 ? null : steps[index]);
  });
  slider.addEventListener("change", () => tabs.postMessage(value.visitor));
  live.addEventListener("click", () => { stop(); select(null); });
  replay.addEventListener("click", () => (playing ? stop() : play()));

  on("snapshots", (news) => {
    const fresh = news.steps.filter((step) => step > (steps.at(-1) ?? -1));
    if (!value || value.run !== news.run || !fresh.length) return;
    steps.push(...fresh);
    show();
    if (at === null) announceModel(false);
    if (steps.length > MOST_STEPS && !slider.matches(":active")) select(at);
  });

  return function draw(/** @type {ModelLine | null} */ next) {
    if (!next) return;
    const before = value;
    const isOther = before && (before.name !== next.name || before.run !== next.run);
    // An answer to an earlier request must not undo a step that the person has chosen since.
    const isOld = before && !isOther && (isWaiting || (next.choice ?? choice) < choice);
    const chosen = isOld ? at : next.at;
    const moved = isOther || at !== chosen;
    choice = Math.max(choice, next.choice ?? 0);
    if (isOther) {
      stop();
      tabs.postMessage(next.visitor);
    }
    value = next;
    meet(next.visitor);
    name.textContent = next.name;
    if (!before) line.append("Model: ", name, ", ", detail);
    steps = [...next.steps];
    at = chosen;
    show();
    if (before && moved) announceModel(true);
  };
}
