// The entry: the views that ui/views.py knows by name, and those that were mounted before the scripts had loaded.

import { headDetail } from "./attention/head_detail.js";
import { headGrid } from "./attention/head_grid.js";
import { headSwitches } from "./attention/head_switches.js";
import { change, FIRST, onChange, settings } from "./attention/heads.js";
import { lessonBar } from "./lessons/lesson_bar.js";
import { unfoldedCell } from "./attention/unfolded_cell.js";
import { closer } from "./masked_words/closer_view.js";
import { guesses } from "./masked_words/guesses.js";
import { pairAcross, pairMatrix } from "./next_sentence/pair_views.js";
import { verdict } from "./next_sentence/verdict.js";
import { exporter } from "./parts/downloads.js";
import { facts } from "./parts/facts.js";
import { plot } from "./parts/figures.js";
import { frame } from "./bars/frame.js";
import { on } from "./parts/page.js";
import { ask, question } from "./parts/question.js";
import { sentenceBar } from "./bars/sentence_bar.js";
import { batch } from "./compare/batch.js";
import { fineTune } from "./finetune/run.js";
import { transfer } from "./finetune/transfer.js";
import { exam } from "./train/exam.js";
import { experiment } from "./compare/experiments.js";
import { runMonitor } from "./train/monitor.js";
import { textPreview } from "./train/preview.js";
import { runsList } from "./compare/runs_list.js";
import { mount } from "./views.js";
import { stepByStep } from "./vectors/step_by_step.js";
import { similarityMap } from "./vectors/words_in_context.js";

/** @type {Record<string, View>} */
const views = {
  batch, closer, exam, experiment, exporter, facts, fineTune, frame, guesses, headDetail, headGrid, headSwitches, lessonBar,
  pairAcross, pairMatrix, plot, runMonitor, runsList, sentenceBar, similarityMap, stepByStep, textPreview, transfer, unfoldedCell,
  verdict,
};

/** @param {WaitingView} view */
const mountByName = (...[name, , component]) => mount(name, window.Balcony.views[name], component);
const { waiting } = window.Balcony;
Object.assign(window.Balcony, { views, mount: mountByName, ask });
for (const view of waiting) mountByName(...view);

// Gradio's lists of choices stay open, one on top of the other, when the Tab key leaves them; Escape closes one.
document.addEventListener("keydown", ({ key, target }) => {
  if (key === "Tab" && target instanceof HTMLElement && target.matches("[role=combobox]")) {
    setTimeout(() => target.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true })));
  }
});

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
