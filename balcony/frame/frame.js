// The bar above the tabs: the shown model and its step, for a run with a time slider over its loss curve, and the link to
// what the page shows.

import { options, popover, select as choices } from "../controls.js";
import { languages } from "../language/language.js";
import { linkButton } from "../parts/downloads.js";
import { button, draws, el, fill, own, svg, withTerms } from "../parts/elements.js";
import { count, placeOf } from "../parts/numbers.js";
import { announce, choice, latest, on, orError, say, setVisitor, visitor } from "./page.js";
import { ask, changedParts, parsed, question, restore } from "./question.js";
import { answer } from "./server.js";
import { asking } from "../views.js";

const OF_LESSON = "The model of this step comes from a run here, with the recipe and seed of the lesson.";
const OF_LINK =
  "A link carries no model. So a run here repeats the training, with the same recipe, settings and seed. The form under Train has them too.";
const LIVE_MS = 1000; // at most so often a view follows a run that is shown live
const MOST_POINTS = 200; // of the curve behind the slider
const MARKED = "At the long ticks a word below is first right.";
const MOST_STEPS = 60; // the server keeps about 40 snapshots; with more here, ask which are left

/** @typedef {Record<string, any>} ShownModel see shown_model in balcony/frame/shown_model.py */
/** @typedef {{visitor: string, run?: string | null, show?: string}} Value of the view: the visitor's token and run, and the model to show */

/** The place of the step that is nearest to another one. @param {number[]} steps @param {number} step */
const nearest = (steps, step) =>
  steps.reduce((best, other, k) => (Math.abs(other - step) < Math.abs(steps[best] - step) ? k : best), 0);

/** What a model has for the question, and its name: when that changes, the tabs ask again. @param {ShownModel} model */
function there({ key, name, steps, active }) {
  const { step } = question;
  if (!steps.length) return `${key} ${active} ${name}`;
  return `${key} ${name} ${step === null ? steps.at(-1) : steps[nearest(steps, step)]}`;
}

/** The slider over the steps of a run, with its loss curve behind it. */
class TimeSlider {
  /** @type {number[]} */
  steps = [];
  slider = el("input", {
    type: "range",
    id: "time-slider",
    min: 0,
    max: 0,
    step: 1,
    "aria-label": "Step of the run",
    oninput: () => {
      const index = Number(this.slider.value);
      ask({ step: index === this.steps.length - 1 ? null : this.steps[index] });
    },
  });
  drawing = svg("svg", {
    class: "b-time-curve",
    viewBox: "0 0 100 20",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  live = button("Live", () => ask({ step: null }), { id: "time-live", title: "Follow the newest step" });
  element = el(
    "div.b-time",
    { role: "group", "aria-label": "Time" },
    el("div.b-time-track", this.drawing, this.slider),
    this.live,
  );

  /** @param {ShownModel} model @param {number[]} marked steps @returns {string} which step is shown, or why none */
  show({ steps, detail, curve }, marked) {
    this.steps = steps;
    const last = Math.max(0, steps.length - 1),
      { step } = question;
    this.slider.max = `${last}`;
    this.slider.value = `${step === null ? last : nearest(steps, step)}`;
    this.slider.disabled = steps.length < 2;
    const words = !steps.length ? detail : `step ${count(step === null ? steps[last] : steps[nearest(steps, step)])}`;
    this.slider.setAttribute("aria-valuetext", step === null ? `Live, ${words}` : words);
    this.live.ariaPressed = `${step === null}`;
    const right = marked.filter((each) => steps.includes(each));
    this.slider.title = right.length ? MARKED : "";
    this.draw(curve ?? [], right);
    return words;
  }

  /** The loss curve behind the slider and a tick for each step, in the slider's own scale: one place for each step. @param {[step: number, loss: number | null][]} curve @param {number[]} marked steps */
  draw(curve, marked) {
    const places = Math.max(1, this.steps.length - 1),
      at = (/** @type {number} */ place) => ((100 * place) / places).toFixed(2);
    // A run from a file has numbers from before its first kept step, one in training from after its last.
    const [first, last] = [this.steps[0] ?? 0, this.steps.at(-1) ?? 0],
      kept = curve.filter(([step]) => step >= first && step <= last),
      points = kept.flatMap(([step, loss]) => (loss === null ? [] : [[placeOf(this.steps, step), loss]]));
    const top = Math.max(...points.map(([, loss]) => loss), 1e-9);
    const ticks = (/** @type {number[]} */ steps, /** @type {number} */ height) =>
      steps.map((step) => `M${at(placeOf(this.steps, step))} 20v-${height}`).join("");
    const line = points.map(([place, loss]) => `${at(place)},${(20 - (18 * loss) / top).toFixed(2)}`);
    fill(
      this.drawing,
      svg("path", { class: "b-time-ticks", d: ticks(this.steps, 4) }),
      svg("path", { class: "b-time-right", d: ticks(marked, 20) }),
      line.length > 1 && svg("polyline", { class: "b-time-loss", points: line.join(" ") }),
    );
  }
}

/** @param {boolean} [isDark] else the other */
function setTheme(isDark) {
  choice("theme", document.body.classList.toggle("dark", isDark) ? "dark" : "light");
}

/** Let the keyboard go on in the open tab. */
function focusTab() {
  const panels = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#tabs > [role=tabpanel]")]);
  const open = panels.find((panel) => panel.checkVisibility());
  open?.setAttribute("tabindex", "-1");
  open?.focus({ preventScroll: true });
}

class Frame {
  picker = choices("Model", [], (model) => ask({ model, step: null }));
  name = el("input", { id: "model-name", "aria-label": "Name of the model", maxlength: 60, autofocus: "" });
  rename = popover(
    "Rename",
    { id: "model-rename", title: "Rename this model", onclick: () => this.offerName() },
    el(
      "form.b-tools",
      { onsubmit: (event) => this.take(event) },
      this.name,
      button("Rename", () => {}, { type: "submit" }),
    ),
  );
  detail = el("span.b-model-detail", { id: "model-step" });
  notice = el("p.b-note", { id: "link-notice", role: "status", hidden: "" });
  time = new TimeSlider();
  /** @type {ShownModel | null} */
  shown = null;
  /** The run of the Train tab; undefined before the server has answered. @type {string | null | undefined} */
  current;
  repeated = ""; // the last run that a link named
  isDoubted = false; // a view of the shown model has no answer
  isLink = Boolean(parsed(window.Balcony.hash));
  /** By tab, see the event "right". @type {Record<string, {model: string, steps: number[]}>} */
  right = {};
  following = 0;
  lastFollowed = -Infinity;

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options: given }) {
    this.losses = given.losses;
    this.picker.id = "model-picker";
    this.picker.addEventListener("focus", () => this.list().catch(console.warn));
    const theme = button("◐", () => setTheme(), { id: "theme", title: "Light or dark" });
    const sentences = given.help.map((/** @type {string} */ text) => el("p", text));
    const help = popover("?", { id: "help", "aria-label": "Help" }, sentences);
    fill(
      root,
      el("button.b-skip", { id: "skip", onclick: focusTab }, "Skip to the open tab"),
      el("h1", { id: "title" }, "Balcony"),
      el("div.b-model", this.picker, this.rename, this.detail),
      this.time.element,
      el("div.b-frame-tools", linkButton(), languages(), theme, help),
      this.notice,
    );
    this.refresh = asking(root, () => this.fetch());
    this.list = latest(() => this.fetchList());
    this.listen();
    if (choice("theme")) setTheme(choice("theme") === "dark");
  }

  listen() {
    const renew = () => {
      for (const work of [this.refresh, this.list]) work().catch(console.warn);
    };
    on("question", ({ changed }) => {
      if (changed.has("model")) renew();
      else if (changed.has("step")) {
        this.show();
        this.refresh();
      } else if (changed.has("tab")) this.show();
    });
    on("right", ({ tab, ...right }) => {
      this.right[tab] = right;
      this.show();
    });
    on("snapshots", (news) => this.grow(news));
    on("status", renew);
    on("failed", () => {
      this.isDoubted = true;
      renew();
    });
    addEventListener("hashchange", () => {
      const found = parsed(location.hash);
      if (!found) return;
      restore({ recipe: found.model === question.model ? question.recipe : null, ...found });
    });
  }

  show() {
    if (!this.shown) return;
    const { key, own: isOwn } = this.shown,
      right = this.right[question.tab];
    this.detail.textContent = this.time.show(this.shown, right?.model === key ? right.steps : []);
    this.rename.hidden = !isOwn;
    if ([...this.picker.options].some(({ value }) => value === key)) this.picker.value = key;
  }

  /** Ask the server for the shown model, and show the step that it still has. */
  async fetch() {
    const { model: key, step } = question;
    const found = /** @type {ShownModel} */ (await answer("model", key, step));
    if (key !== question.model) return;
    if (found.error) return this.replace(key, found.error);
    this.notice.hidden ||= this.notice.dataset.model !== key || Boolean(question.lesson && found.run && !found.active);
    const { shown: before, isDoubted } = this,
      isSame = before?.key === found.key,
      had = before && isSame && there(before);
    this.shown = found;
    this.isDoubted = false;
    const isOther = found.at !== null && step === question.step && step !== found.at;
    if (isOther)
      say(`This run has no model of step ${count(step)}; the page shows step ${count(found.at)}, the nearest one.`);
    ask({ recipe: found.recipe ?? null, ...(isOther && { step: found.at }) });
    this.show();
    // A run has its text when it has its first step.
    if (!isSame || (!before?.steps.length && found.steps.length > 0)) announce("shown", { key: found.key });
    if (isDoubted || (isSame && there(found) !== had)) this.follow();
  }

  /** A run has more snapshots, or points of its curve. @param {{run: string, steps: number[], points: (number | null)[][]}} news */
  grow(news) {
    const { shown } = this;
    if (!shown || shown.run !== news.run) return;
    const known = shown.curve.at(-1)?.[0] ?? -1;
    shown.curve.push(...news.points.filter(([step]) => (step ?? 0) > known).map((point) => point.slice(0, 2)));
    if (shown.curve.length > MOST_POINTS) shown.curve = shown.curve.filter((_, k, { length }) => (length - k) % 2);
    const fresh = news.steps.filter((step) => step > (shown.steps.at(-1) ?? -1));
    if (!fresh.length) return;
    const isFirst = !shown.steps.length,
      had = there(shown);
    shown.steps.push(...fresh);
    this.show();
    if (isFirst) announce("shown", { key: shown.key });
    if (there(shown) !== had) this.follow();
    if (shown.steps.length > MOST_STEPS && !this.time.slider.matches(":active")) this.refresh();
  }

  /** Let the tabs ask the shown run again, at most once in LIVE_MS. */
  follow() {
    clearTimeout(this.following);
    const follow = () => {
      this.lastFollowed = performance.now();
      if (this.shown && this.shown.key === question.model) ask({ newest: there(this.shown) });
    };
    this.following = setTimeout(follow, Math.max(0, this.lastFollowed + LIVE_MS - performance.now()));
  }

  /** Show another model, and say why until the person chooses one. @param {string} why @param {string} [model] */
  turn(why, model = "") {
    const { notice } = this,
      hide = () => {
        notice.hidden = true;
      };
    fill(notice, withTerms(why), " ", button("×", hide, { title: "Close", "aria-label": "Close" }));
    notice.hidden = false;
    notice.dataset.model = model;
    if (question.lesson) document.getElementById("lesson-body")?.after(notice); // below Next, which stays in its place
    const { off, zeroed, carried } = question; // of a link, whose model is the same one again
    ask(model ? { model, off, zeroed, carried } : { model, step: null, other: "" });
  }

  /** The visitor does not have the model of the question. The recipe of a link is trained again. @param {string} key @param {string} why */
  async replace(key, why) {
    const { recipe } = question,
      { shown } = this;
    const missing = recipe && "missing" in recipe ? recipe.missing : recipe ? "" : why;
    if (shown && shown.key === question.model)
      return this.turn(`${own(shown.name)} is gone. ${this.losses} The page shows a model that comes with Balcony.`);
    if (missing)
      return this.turn(
        `The model of this link is not here. ${missing} Its sender can download it under Models, and you can open it there.`,
      );
    const run = await orError(answer("repeat", recipe, question.step));
    if (!run.error) {
      this.repeated = run;
      announce("elsewhere", null);
    }
    if (key !== question.model) return; // the person has gone on
    if (run.error) return this.turn(`The model of this link cannot be trained again: ${run.error}`);
    this.turn(question.lesson ? OF_LESSON : OF_LINK, run);
    if (!question.lesson) announce("fill", recipe);
  }

  async fetchList() {
    const found = await answer("models");
    if (found.error) return;
    const names = found.map((/** @type {import("./page.js").Listed} */ [key, name]) => [key, name]);
    options(this.picker, names, this.shown?.key ?? question.model);
    announce("models", found);
  }

  offerName() {
    this.name.value = this.shown?.name ?? "";
    this.name.select();
  }

  /** Take the name that was typed. @param {Event} event */
  async take(event) {
    event.preventDefault(); // no new page
    const { error } = await orError(answer("rename", this.shown?.key, this.name.value));
    if (error) return say(error);
    announce("renamed", null);
    await this.refresh();
    await this.list();
  }

  /** @param {Value} value */
  begin(value) {
    this.current = value.run ?? null;
    setVisitor(value.visitor);
    if (this.isLink) restore(changedParts());
    else if (this.current) ask({ model: this.current });
    this.refresh().then(this.list).catch(console.warn);
  }

  /** @param {Value | null} value */
  draw(value) {
    if (!value) return;
    if (this.current === undefined) return this.begin(value);
    if (value.visitor !== visitor.token) this.refresh().catch(console.warn); // another visitor has other models
    setVisitor(value.visitor);
    const before = this.current;
    if (value.run !== undefined) this.current = value.run;
    const { current } = this,
      isLive = question.model === before && question.step === null,
      isNew = current !== before && current !== this.repeated;
    // A new run is shown where it was started, and where the run before it was shown live.
    if (value.show) ask({ model: value.show, step: null });
    else if (current && isNew && (question.tab === "train" || isLive)) ask({ model: current, step: null });
    this.list().catch(console.warn);
  }
}

/** @type {View} */
export const view = (root, context) => draws(new Frame(root, context));
