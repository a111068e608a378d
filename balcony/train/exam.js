// Memorising versus generalising: the exam of the run in Train, when that is open and training pauses or ends, or a step is
// selected.

import { changes, el, fill, withTerms } from "../parts/elements.js";
import { announce, on } from "../frame/page.js";
import { onPart, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { runs } from "../compare/runs.js";

/** @type {View} */
export function view(root) {
  const body = el("div"),
    details = el("details", el("summary", "Memorised or generalised?"), body);

  /** @param {any} value */
  function paint({ text, rule, step, verdict }) {
    fill(root, verdict ? details : el("p.b-empty", withTerms(text))); // open or not as the person left it
    if (!verdict) return;
    const sentences = [`Exam at step ${step}`, withTerms(text), ...verdict].map((sentence) => el("p", sentence));
    fill(body, sentences, el("p.b-empty", rule));
  }
  const ask = asking(root, async (/** @type {string} */ run, /** @type {number | null} */ step) => {
    const value = await answer("exam", run, step);
    paint(value);
    announce("verdict", { run, step, text: value.verdict?.[0] ?? "", hasMore: Boolean(value.hasMore) });
  });
  const isNew = changes();
  let statuses = 0; // of the run, so far
  const follow = () => {
    const run = runs.shown ?? "",
      step = question.model === run ? question.step : null;
    if (question.tab === "train" && isNew(run, step, statuses)) ask(run, step);
  };
  onPart(["model", "step", "tab"], follow);
  on("runs", () => {
    statuses += 1;
    follow();
  });
  paint({ text: "" });
  follow();
}
