// The entry: the views that ui/views.py knows by name, and those that were mounted before the scripts had loaded.

import { headGrid } from "./attention/head_grid.js";
import { change, FIRST, onChange, settings } from "./attention/heads.js";
import { lessonBar } from "./lessons/lesson_bar.js";
import { guesses } from "./masked_words/guesses.js";
import { verdict } from "./next_sentence/verdict.js";
import { exporter } from "./parts/downloads.js";
import { disable, note } from "./parts/elements.js";
import { plot } from "./parts/figures.js";
import { frame } from "./bars/frame.js";
import { messages, watchRequests } from "./bars/messages.js";
import { on } from "./parts/page.js";
import { saveFile } from "./language/language.js";
import { ask, question } from "./parts/question.js";
import { sentenceBar } from "./bars/sentence_bar.js";
import { visitorToken } from "./bars/visitor.js";
import { exam } from "./train/exam.js";
import { runMonitor } from "./train/monitor.js";
import { facts, textPreview } from "./train/preview.js";
import { mount } from "./views.js";
import { similarityMap } from "./vectors/words_in_context.js";

/** @type {Record<string, View>} */
const views = {
  exam,
  exporter,
  facts,
  frame,
  guesses,
  headGrid,
  lessonBar,
  messages,
  plot,
  runMonitor,
  sentenceBar,
  similarityMap,
  textPreview,
  verdict,
  visitorToken,
};
/** The modules of those that are fetched when they are first shown. @type {Record<string, () => Promise<any>>} */
const later = {
  batch: () => import("./compare/batch.js"),
  classRoom: () => import("./class/room.js"),
  closer: () => import("./masked_words/closer_view.js"),
  fineTune: () => import("./finetune/run.js"),
  headDetail: () => import("./attention/head_detail.js"),
  headSwitches: () => import("./attention/head_switches.js"),
  pairAcross: () => import("./next_sentence/pair_views.js"),
  pairMatrix: () => import("./next_sentence/pair_views.js"),
  runsList: () => import("./compare/runs_list.js"),
  stepByStep: () => import("./vectors/step_by_step.js"),
  trial: () => import("./compare/trials.js"),
  unfoldedCell: () => import("./attention/unfolded_cell.js"),
};

/** @param {WaitingView} view */
async function mountByName(...[name, , component]) {
  let view = views[name];
  try {
    view ??= (await later[name]())[name];
  } catch (error) {
    console.warn(`Balcony.${name}`, error);
    component.element.append(note("This part of the page did not load. Load the page again.", true));
    return;
  }
  mount(name, view, component);
}
watchRequests();
const { waiting } = window.Balcony;
Object.assign(window.Balcony, { mount: mountByName, ask, saveFile });
for (const view of waiting) mountByName(...view);

// A key that belongs to an input method, and half a word that it still composes, are nothing that a field has to know.
// In Safari the key that ends a word comes after it, and has this number.
for (const name of ["keydown", "input"]) {
  addEventListener(
    name,
    (/** @type {any} */ event) => {
      if (event.isComposing || event.keyCode === 229) event.stopImmediatePropagation();
    },
    true,
  );
}
addEventListener("compositionend", ({ target }) => target?.dispatchEvent(new Event("input", { bubbles: true })), true);

// Gradio's lists of choices stay open, one on top of the other, when the Tab key leaves them; Escape closes one.
document.addEventListener("keydown", ({ key, target }) => {
  if (key === "Tab" && target instanceof HTMLElement && target.matches("[role=combobox]")) {
    setTimeout(() => target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })));
  }
});

/** Why Gradio's buttons cannot be pressed, which have no title of their own. */
const WHY = {
  reset: "There is no run yet; press Start.",
  stop: "No run trains.",
  keep: "Only a step of your own run can be kept.",
  remove: "Only a model that you opened or kept can be removed.",
};
new MutationObserver(() => {
  for (const [id, why] of Object.entries(WHY)) {
    const button = /** @type {HTMLButtonElement | null} */ (document.getElementById(id));
    if (button && button.disabled !== Boolean(button.title)) disable(button, button.disabled && why);
  }
}).observe(document.body, { childList: true, subtree: true, attributeFilter: ["disabled"] });

// How the views of heads are drawn is a part of the question, without what is as it is at first.
onChange(document.body, () => {
  const { picked, active, ...drawn } = settings;
  const heads = Object.fromEntries(Object.entries(drawn).filter(([key, value]) => value !== FIRST[key]));
  ask({ head: picked, heads: active ? { ...heads, active: [...active] } : heads });
});
on("restored", () => {
  const { active, ...drawn } = /** @type {any} */ (question.heads);
  change({ ...FIRST, ...drawn, picked: question.head, active: Array.isArray(active) ? new Set(active) : null });
});
