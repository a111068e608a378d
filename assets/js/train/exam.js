// Memorising versus generalising: the exam, which runs when Train is open and training pauses or ends, or a step is selected.

import { table } from "../controls.js";
import { el, fill } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { announce, on, visitor } from "../frame/page.js";
import { onPart, question } from "../frame/question.js";
import { asking } from "../views.js";

/** @param {[right: number, all: number]} result */
const result = ([right, all]) => (all ? [`${percent(right / all)} `, el("small", `${right} of ${all}`)] : "–");

/** @param {HTMLElement} root @param {any} value */
function paint(root, { text, rule, step, columns, rows, verdict = [] }) {
  const details = root.querySelector("details");
  if (details) root.classList.toggle("is-open", details.open); // as the person left it, also before the next table
  fill(root, !rows && el("p.b-empty", text));
  if (!rows) return;
  const lines = rows.map(([name, ...results]) => [name, ...results.map(result)]);
  const caption = el("caption.b-unseen", `Exam at step ${step}`);
  root.append(
    el(
      "details",
      { open: root.matches(".is-open") ? "" : null },
      el("summary", "Memorised or generalised?"),
      [text, ...verdict].map((sentence) => el("p", sentence)),
      table([`Step ${count(step)}`, ...columns], lines, { caption, class: "b-table b-exam" }),
      el("p.b-empty", rule),
    ),
  );
}

/** @type {View} */
export function view(root, { server }) {
  const ask = asking(root, async () => {
    await visitor.known;
    if (question.tab !== "train") return;
    const { model, step } = question,
      value = await server.results(model, step);
    paint(root, value);
    announce("verdict", { run: model, step, text: value.verdict?.[0] ?? "", advice: value.advice ?? "" });
  });
  onPart(["model", "step", "tab"], ask);
  on("status", () => ask());
  paint(root, { text: "" });
  ask();
}
