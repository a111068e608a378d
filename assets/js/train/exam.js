// Memorising versus generalising: the exam, which runs when Train is open and training pauses or ends, or a step is selected.

import { table } from "../controls.js";
import { el, fill } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { announce, on, visitor } from "../frame/page.js";
import { onPart, question } from "../frame/question.js";
import { asking } from "../views.js";

/** @param {[right: number, all: number]} result */
const result = ([right, all]) => (all ? [`${percent(right / all)} `, el("small", `${right} of ${all}`)] : "–");

/** @type {View} */
export function view(root, { server }) {
  const body = el("div"),
    details = el("details", el("summary", "Memorised or generalised?"), body);

  /** @param {any} value */
  function paint({ text, rule, step, columns, rows, verdict = [] }) {
    fill(root, rows ? details : el("p.b-empty", text)); // open or not as the person left it
    if (!rows) return;
    const lines = rows.map(([name, ...results]) => [name, ...results.map(result)]),
      caption = el("caption.b-unseen", `Exam at step ${step}`);
    fill(
      body,
      [text, ...verdict].map((sentence) => el("p", sentence)),
      table([`Step ${count(step)}`, ...columns], lines, { caption, class: "b-table b-exam" }),
      el("p.b-empty", rule),
    );
  }
  const ask = asking(root, async () => {
    await visitor.known;
    if (question.tab !== "train") return;
    const { model, step } = question,
      value = await server.results(model, step);
    paint(value);
    announce("verdict", { run: model, step, text: value.verdict?.[0] ?? "", advice: value.advice ?? "" });
  });
  onPart(["model", "step", "tab"], ask);
  on("status", () => ask());
  paint({ text: "" });
  ask();
}
