// The editor of a lesson: boxes for the texts of a step, which change the lesson as they are typed in. This browser keeps it.

import { asksFirst, toggle } from "../controls.js";
import { button, disable, el } from "../parts/elements.js";
import { saveText } from "../parts/downloads.js";
import { ask, changedParts, question } from "../frame/question.js";

/** @import { Lesson, LessonBar, Step } from "./lesson_bar.js" */

const CHOICES = "Choices, one on each line, * before the right one";

/** @param {string} name @param {string} id @param {string} value @param {(text: string) => void} change */
function area(name, id, value, change) {
  const typed = () => change(box.value);
  const box = el("textarea", { id, rows: 2, "aria-label": name, placeholder: name, oninput: typed });
  box.value = value;
  return box;
}

/** Parts that are empty stay out of a file. @param {string} key @param {any} value */
const written = (key, value) =>
  value === null || value === "" || (Array.isArray(value) && !value.length && key !== "hidden") ? undefined : value;

/** The choices of a step, and which is right, from a line for each. @param {string} text */
function parsedChoices(text) {
  const lines = text.split("\n").map((line) => line.trim());
  const named = lines.filter((line) => line.replace(/^\*\s*/, "")),
    right = named.findIndex((line) => line.startsWith("*"));
  return { choices: named.map((line) => line.replace(/^\*\s*/, "")), right: right < 0 ? null : right };
}

/** The title, the way between steps, and the buttons for all of the lesson. @param {LessonBar} bar */
function head(bar) {
  const from = /** @type {Lesson} */ (bar.lesson),
    now = bar.step,
    title = area("Title", "lesson-title", from.title, (text) => {
      from.title = text;
      bar.changed();
    });
  title.rows = 1;
  // A step with the question of the page comes after the one that is shown.
  const add = () => {
    const view = Object.fromEntries(Object.entries(changedParts()).filter(([key]) => key !== "lesson" && key !== "at"));
    const fresh = { question: view, text: "", ask: "", choices: [], right: null, answer: "", hide: [] };
    from.steps.splice(question.at + (now ? 1 : 0), 0, fresh);
    ask({ at: now ? question.at + 1 : 0 });
    bar.changed(true);
  };
  const remove = () => {
    from.steps.splice(question.at, 1);
    ask({ at: Math.max(0, question.at - 1) });
    bar.changed(true);
  };
  const swap = (/** @type {number} */ by) => {
    const { at } = question;
    [from.steps[at], from.steps[at + by]] = [from.steps[at + by], from.steps[at]];
    ask({ at: at + by });
    bar.changed(true);
  };
  const earlier = button("Move earlier", () => swap(-1), { id: "lesson-earlier" }),
    later = button("Move later", () => swap(1), { id: "lesson-later" });
  disable(earlier, question.at === 0 && "This is the first step.");
  disable(later, question.at >= from.steps.length - 1 && "This is the last step.");
  const download = () => saveText(JSON.stringify(from, written, 2), "lesson.json");
  return el(
    "div.b-lesson-head",
    title,
    el("span", { id: "lesson-step" }, now ? `Step ${question.at + 1} of ${from.steps.length}` : "No step yet"),
    bar.moves(from),
    button("Add this view", add, { id: "lesson-add" }),
    now && [earlier, later],
    now && asksFirst("Remove step", { id: "lesson-remove" }, "Remove this step with its texts?", remove),
    button("Save as a file", download, { id: "lesson-save" }),
    button("Try it", () => bar.attempt(), { id: "lesson-try" }),
    now &&
      asksFirst("Begin anew", { id: "lesson-anew" }, "Remove all steps of this lesson from this browser?", () =>
        bar.anew(),
      ),
    button("Close", () => bar.close(), {
      id: "lesson-close",
      title: "This browser keeps the lesson; Lessons opens it again",
    }),
  );
}

/** @param {LessonBar} bar */
export function editor(bar) {
  const now = bar.step,
    { parts } = bar.options;
  if (!now) return [head(bar), el("p.b-empty", "Set the page as the lesson should show it, and press Add this view.")];
  const set = (/** @type {Partial<Step>} */ update) => {
    Object.assign(now, update);
    bar.changed();
  };
  const lines = now.choices.map((choice, k) => (k === now.right ? `* ${choice}` : choice)).join("\n");
  const hides = Object.entries(parts).map(([part, [name]]) => {
    const hide = (/** @type {boolean} */ is) =>
      set({ hide: Object.keys(parts).filter((each) => (each === part ? is : now.hide.includes(each))) });
    return toggle(name, hide, { value: part, checked: now.hide.includes(part) ? "" : null });
  });
  return [
    head(bar),
    area("Text of this step", "lesson-text", now.text, (text) => set({ text })),
    area("A question to answer", "lesson-ask", now.ask, (text) => set({ ask: text })),
    area(CHOICES, "lesson-choices", lines, (text) => set(parsedChoices(text))),
    area("The answer", "lesson-answer", now.answer, (answer) => set({ answer })),
    el("div.b-tools", { role: "group", "aria-label": "Hide" }, "Hide: ", hides),
  ];
}
