// Which model at which step the page looks at: a line of words, and for a run the time slider above all tabs.
// A move is told to the server, then to the open tab by one event, "model" on the bus; latest wins in both.

import { el } from "./elements.js";
import { count } from "./numbers.js";
import { bus, latest, tabs, visitor } from "./page.js";

const REPLAY_MS = 250;
const MOST_STEPS = 60; // the server keeps about 40; with more here, it is time to ask which

export function modelLine(root, { server }) {
  const name = el("bdi", { class: "balcony-model-name" });
  const detail = el("span", { class: "balcony-model-detail", id: "model-step" });
  const slider = el("input", { type: "range", id: "time-slider", min: 0, max: 0, step: 1, "aria-label": "Step of the run" });
  const live = el("button", { type: "button", id: "time-live", class: "balcony-small-button", title: "Follow the newest step" }, "Live");
  const replay = el("button", { type: "button", id: "time-replay", class: "balcony-small-button" }, "Replay");
  const time = el("div", { class: "balcony-time", role: "group", "aria-label": "Time" }, replay, slider, live);
  root.append(
    el("p", { class: "balcony-model" }, el("span", { class: "balcony-model-label" }, "Looking at"), name, detail), time);
  let value = null;
  let steps = [];
  let at = null; // null is live
  let playing = 0;

  function show() {
    const last = Math.max(0, steps.length - 1);
    slider.max = last;
    slider.value = at === null ? last : nearest(at);
    slider.disabled = replay.disabled = steps.length < 2;
    const words = at === null ? (steps.length ? `step ${count(steps[last])}` : value.detail) : `step ${count(at)}`;
    slider.setAttribute("aria-valuetext", at === null ? `Live, ${words}` : words);
    live.setAttribute("aria-pressed", at === null);
    detail.textContent = value.run ? words : value.detail;
    time.style.visibility = value.run ? "visible" : "hidden";
  }

  const nearest = (step) =>
    steps.reduce((best, other, index) => (Math.abs(other - step) < Math.abs(steps[best] - step) ? index : best), 0);

  function announce(chosen) {
    bus.dispatchEvent(new CustomEvent("model", { detail: { run: value.run, step: at, chosen } }));
  }

  const tell = latest(async (run, step) => {
    const answer = await server.look(value.visitor, run, step);
    if (run !== value.run) return;
    if (answer.error) { detail.textContent = answer.error; return; }
    if (step === at) {
      // The snapshot that was asked for may have been dropped meanwhile; the server took the one next to it.
      at = answer.at;
      if (!slider.matches(":active")) steps = answer.steps;
      show();
    }
    announce(true);
  });

  function look(step) {
    at = step;
    show();
    tell(value.run, step).catch((error) => { detail.textContent = "connection lost"; console.warn(error); });
  }

  function play() {
    stop();
    let next = 0;
    replay.textContent = "Stop";
    playing = setInterval(() => {
      const isLast = next >= steps.length - 1;
      look(isLast ? null : steps[next]);
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
    look(index === steps.length - 1 ? null : steps[index]);
  });
  slider.addEventListener("change", () => tabs.postMessage(value.visitor));
  live.addEventListener("click", () => { stop(); look(null); });
  replay.addEventListener("click", () => (playing ? stop() : play()));

  bus.addEventListener("snapshots", ({ detail: news }) => {
    const fresh = news.steps.filter((step) => step > (steps.at(-1) ?? -1));
    if (!value || value.run !== news.run || !fresh.length) return;
    steps.push(...fresh);
    show();
    if (at === null) announce(false);
    if (steps.length > MOST_STEPS && !slider.matches(":active")) look(at);
  });

  return function draw(next) {
    if (!next) return;
    const before = value;
    const isOther = before && (before.name !== next.name || before.run !== next.run);
    const moved = isOther || at !== next.at;
    if (isOther) {
      stop();
      tabs.postMessage(next.visitor);
    }
    value = next;
    visitor.token = next.visitor;
    name.textContent = next.name;
    steps = [...next.steps];
    at = next.at;
    show();
    if (before && moved) announce(true);
  };
}
