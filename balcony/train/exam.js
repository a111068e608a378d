// Memorising versus generalising: the exam of the run in Train, when that is open and training pauses or ends, or a step is
// selected.

import { table } from "../controls.js";
import { changes, el, fill, withTerms } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { announce, on } from "../frame/page.js";
import { onPart, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { runs } from "../compare/runs.js";

/** @param {[right: number, all: number]} result */
const result = ([right, all]) => (all ? [`${percent(right / all)} `, el("small", `${right} of ${all}`)] : "–");

/** @type {View} */
export function view(root) {
  const body = el("div"),
    details = el("details", el("summary", "Memorised or generalised?"), body);

  /** @param {any} value */
  function paint({ text, rule, step, columns, rows, verdict = [] }) {
    fill(root, rows ? details : el("p.b-empty", withTerms(text))); // open or not as the person left it
    if (!rows) return;
    const lines = rows.map(([name, ...results]) => [name, ...results.map(result)]),
      caption = el("caption.b-unseen", `Exam at step ${step}`);
    fill(
      body,
      [withTerms(text), ...verdict].map((sentence) => el("p", sentence)),
      table([`Step ${count(step)}`, ...columns], lines, { caption, class: "b-table b-exam" }),
      el("p.b-empty", rule),
    );
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
