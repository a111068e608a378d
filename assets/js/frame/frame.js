// The bar above the tabs: the shown model and its step, for a run with a time slider over its loss curve, and the link to
// what the page shows.

import { languages } from "../language/language.js";
import { disable, el, nodes, own, svg } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { announce, choice, latest, meet, on, visitor } from "./page.js";
import { ask, link, parsed, question, restore } from "./question.js";
import { asking } from "../views.js";

const REPLAY_MS = 250;
const LIVE_MS = 1000; // at most so often a view follows a run that is shown live
const MOST_STEPS = 60; // the server keeps about 40 snapshots; with more here, ask which are left

/**
 * @typedef {object} ShownModel See shown_model in ui/frame/shown_model.py.
 * @property {string} key
 * @property {string} name
 * @property {string} detail
 * @property {boolean} own whether the visitor may rename it
 * @property {string | null} run
 * @property {number[]} steps
 * @property {number | null} at
 * @property {[step: number, loss: number | null][]} [curve]
 * @property {boolean} [active]
 * @property {object} [recipe]
 * @property {string} [error]
 */

/** @param {string} id @param {string} text @param {string} hint @param {() => void} press */
function button(id, text, hint, press) {
  const item = el("button", { id, class: "b-small-button", title: hint }, text);
  item.addEventListener("click", press);
  return item;
}

/** @type {View} */
export function view(root, { server, options }) {
  const picker = el("select", { id: "model-picker", "aria-label": "Model" });
  const name = el("input", { id: "model-name", "aria-label": "Name of the model", maxlength: 60, hidden: "" });
  const rename = button("model-rename", "✎", "Rename this model", edit);
  const detail = el("span", { class: "b-model-detail", id: "model-step" });
  const slider = el("input", {
    type: "range",
    id: "time-slider",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "Step of the run",
  });
  const drawing = svg("svg", {
    class: "b-time-curve",
    viewBox: "0 0 100 20",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const live = button("time-live", "Live", "Follow the newest step", () => {
    stop();
    select(null);
  });
  const replay = button("time-replay", "Replay", "Show each kept step in turn", () => (playing ? stop() : play()));
  const time = el(
    "div",
    { class: "b-time is-empty", role: "group", "aria-label": "Time" },
    replay,
    el("div", { class: "b-time-track" }, drawing, slider),
    live,
  );
  const copied = el("span", { class: "b-unseen", role: "status" });
  const copy = button("copy-link", "Copy link", "Copy a link that shows the same", copyLink);
  const theme = button("theme", "◐", "Light or dark", () => setTheme(!document.body.classList.contains("dark")));
  const help = el(
    "details",
    { class: "b-help" },
    el("summary", { id: "help", "aria-label": "Help" }, "?"),
    el("div", {}, ...options.help.map((text) => el("p", {}, text))),
  );
  const notice = el("p", { class: "b-note", id: "link-notice", role: "status", hidden: "" });
  const model = el("div", { class: "b-model" }, picker, name, rename, detail);
  root.append(
    el("h1", { id: "title" }, "Balcony"),
    model,
    time,
    el("div", { class: "b-frame-tools" }, copy, copied, languages(), theme, help),
    notice,
  );

  /** @type {ShownModel | null} */
  let shown = null;
  /** @type {string | null | undefined} */
  let current; // the run of the Train tab; undefined before the server has answered
  let playing = 0;
  let following = 0;
  let lastFollowed = -Infinity;

  const steps = () => shown?.steps ?? [];

  function show() {
    if (!shown) return;
    const all = steps(),
      last = Math.max(0, all.length - 1),
      { step } = question;
    slider.max = `${last}`;
    slider.value = `${step === null ? last : nearest(step)}`;
    slider.disabled = all.length < 2;
    disable(replay, all.length < 2 && "There is one step so far.", "Show each kept step in turn");
    const words = !all.length ? shown.detail : `step ${count(step === null ? all[last] : all[nearest(step)])}`;
    slider.setAttribute("aria-valuetext", step === null ? `Live, ${words}` : words);
    live.setAttribute("aria-pressed", `${step === null}`);
    detail.textContent = words;
    time.classList.toggle("is-empty", !shown.run);
    rename.hidden = !shown.own || !name.hidden;
    if ([...picker.options].some(({ value }) => value === shown?.key)) picker.value = shown.key;
    draw();
  }

  /** The loss curve behind the slider and a tick for each step, in the slider's own scale: one place for each step. */
  function draw() {
    const all = steps(),
      places = Math.max(1, all.length - 1);
    const points = (shown?.curve ?? []).flatMap(([step, loss]) => (loss === null ? [] : [[nearest(step, all), loss]]));
    const top = Math.max(...points.map(([, loss]) => loss), 1e-9);
    const line = points.map(
      ([place, loss]) => `${((100 * place) / places).toFixed(2)},${(20 - (18 * loss) / top).toFixed(2)}`,
    );
    drawing.replaceChildren(
      svg("path", {
        class: "b-time-ticks",
        d: all.map((_, place) => `M${((100 * place) / places).toFixed(2)} 20v-4`).join(""),
      }),
      ...(line.length > 1 ? [svg("polyline", { class: "b-time-loss", points: line.join(" ") })] : []),
    );
  }

  /** @param {number} step @returns {number} */
  const nearest = (step, all = steps()) =>
    all.reduce((best, other, index) => (Math.abs(other - step) < Math.abs(all[best] - step) ? index : best), 0);

  /** Ask the server for the shown model, and show the step that it still has. */
  const refresh = asking(root, async () => {
    await visitor.known;
    const { model: key, step } = question;
    const answer = /** @type {ShownModel} */ (await server.model(visitor.token, key, step));
    if (key !== question.model) return;
    if (answer.error) {
      await replace(answer.error);
      return;
    }
    notice.hidden ||= notice.dataset.model !== key;
    // A run has its text when it has its first step.
    const isNew = shown?.key !== answer.key || (!steps().length && answer.steps.length > 0);
    shown = answer;
    ask({
      recipe: answer.recipe ?? null,
      ...(answer.at !== null && step === question.step ? { step: answer.at } : {}),
    });
    show();
    if (isNew) announce("shown", { key: answer.key });
  });

  /** Show another model, and say why until the person chooses one. @param {string} why @param {string} [model] */
  function turn(why, model = "") {
    notice.replaceChildren(...nodes(why));
    notice.hidden = false;
    notice.dataset.model = model;
    ask(model ? { model } : { model, step: null, other: "" });
  }

  /** The visitor does not have the model of the question. The recipe of a link is trained again. @param {string} why */
  async function replace(why) {
    const { recipe } = question;
    const missing = recipe && "missing" in recipe ? recipe.missing : recipe ? "" : why;
    if (shown && shown.key === question.model) {
      turn(`${own(shown.name)} is gone. ${options.losses} The page shows a model that comes with Balcony.`);
    } else if (missing) {
      turn(
        `The model of this link is not here. ${missing} Its sender can download it under Models, and you can open it there.`,
      );
    } else {
      const run = await server.repeat(visitor.token, recipe, question.step);
      if (run.error) {
        turn(`The model of this link cannot be trained again: ${run.error}`);
        return;
      }
      turn("The model of this link is being trained again, with the same recipe and seed.", run);
      announce("elsewhere", null);
    }
  }

  const list = latest(async () => {
    await visitor.known;
    const answer = await server.models(visitor.token);
    if (answer.error) return;
    const listed = JSON.stringify(answer.models);
    if (picker.dataset.listed !== listed) {
      picker.replaceChildren(
        ...answer.models.map(([key, title, state]) => el("option", { value: key, title: state }, title)),
      );
      picker.dataset.listed = listed;
    }
    picker.value = shown?.key ?? question.model;
    announce("models", answer);
  });

  function edit() {
    if (!shown) return;
    name.hidden = false;
    picker.hidden = rename.hidden = true;
    name.value = shown.name;
    name.focus();
    name.select();
  }

  /** @param {boolean} keep */
  async function edited(keep) {
    if (name.hidden || !shown) return;
    name.hidden = true;
    picker.hidden = rename.hidden = false;
    if (!keep || name.value.trim() === shown.name) return;
    await server.rename(visitor.token, shown.key, name.value);
    announce("runs", null);
    await refresh();
    await list();
  }

  async function copyLink() {
    const address = link();
    try {
      await navigator.clipboard.writeText(address);
      copy.textContent = copied.textContent = "Copied";
    } catch {
      // browsers allow it only over https or on this machine
      copy.textContent = copied.textContent =
        window === window.parent ? "It is in the address bar" : "It is selected below";
      if (window !== window.parent) {
        notice.replaceChildren(el("code", {}, address));
        notice.hidden = false;
        notice.dataset.model = question.model;
        getSelection()?.selectAllChildren(notice);
      }
    }
    setTimeout(() => {
      copy.textContent = "Copy link";
    }, 2000);
  }

  /** @param {boolean} isDark */
  function setTheme(isDark) {
    document.body.classList.toggle("dark", isDark);
    choice("theme", isDark ? "dark" : "light");
  }

  /** @param {number | null} step */
  const select = (step) => ask({ step });

  function play() {
    stop();
    let next = 0;
    replay.textContent = "Stop";
    playing = setInterval(() => {
      const isLast = next >= steps().length - 1;
      select(isLast ? null : steps()[next]);
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
    select(index === steps().length - 1 ? null : steps()[index]);
  });
  picker.addEventListener("change", () => {
    stop();
    ask({ model: picker.value, step: null });
  });
  picker.addEventListener("focus", () => list().catch(console.warn));
  name.addEventListener("keydown", ({ key }) => {
    if (key === "Enter" || key === "Escape")
      edited(key === "Enter")
        .then(() => picker.focus())
        .catch(console.warn);
  });
  name.addEventListener("blur", () => edited(true).catch(console.warn));

  on("question", ({ changed }) => {
    if (changed.has("model")) refresh().then(list).catch(console.warn);
    else if (changed.has("step")) {
      show();
      if (!playing) refresh();
    }
  });

  on("snapshots", (news) => {
    if (!shown || shown.run !== news.run) return;
    const fresh = news.steps.filter((step) => step > (steps().at(-1) ?? -1));
    if (!fresh.length) return;
    const isFirst = !steps().length;
    shown.steps.push(...fresh);
    show();
    if (isFirst) announce("shown", { key: shown.key });
    clearTimeout(following);
    if (question.step === null) {
      following = setTimeout(
        () => {
          lastFollowed = performance.now();
          ask({ newest: steps().at(-1) });
        },
        Math.max(0, lastFollowed + LIVE_MS - performance.now()),
      );
    }
    if (steps().length > MOST_STEPS && !slider.matches(":active")) refresh();
  });
  for (const name of /** @type {const} */ (["status", "failed"]))
    on(name, () => refresh().then(list).catch(console.warn));
  addEventListener("hashchange", () => {
    const found = parsed(location.hash);
    if (!found) return;
    restore({ recipe: found.model === question.model ? question.recipe : null, ...found });
    announce("restored", null);
  });
  if (choice("theme")) setTheme(choice("theme") === "dark");

  /** @param {{visitor: string, run?: string | null, show?: string}} value */
  function begin(value) {
    const found = parsed(location.hash);
    current = value.run ?? null;
    meet(value.visitor);
    if (found) {
      restore(found);
      announce("restored", null);
    } else if (current) ask({ model: current });
    refresh().then(list).catch(console.warn);
  }

  return function drawn(/** @type {{visitor: string, run?: string | null, show?: string} | null} */ value) {
    if (!value) return;
    if (current === undefined) {
      begin(value);
      return;
    }
    if (value.visitor !== visitor.token) refresh().catch(console.warn); // another visitor has other models
    meet(value.visitor);
    const before = current;
    if (value.run !== undefined) current = value.run;
    const isLive = question.model === before && question.step === null;
    // A new run is shown where it was started, and where the run before it was shown live.
    if (value.show) ask({ model: value.show, step: null });
    else if (current && current !== before && (question.tab === "train" || isLive)) ask({ model: current, step: null });
    list().catch(console.warn);
  };
}
