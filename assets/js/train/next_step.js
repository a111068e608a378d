// After a run: one thing to do next, and more steps while the loss still falls.

import { button, el } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { announce, keep, kept, on, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

const FALL = 0.1; // the loss still falls if its last tenth is lower than the tenth before by this fraction

/** Whether the MLM loss was still falling at the end. @param {(number | null)[][]} points */
export function stillFalls(points) {
  const losses = points.map(([, mlm, nsp]) => mlm ?? nsp ?? 0);
  const size = Math.floor(losses.length / 10);
  if (!size) return false;
  /** @param {number[]} some */
  const mean = (some) => some.reduce((sum, loss) => sum + loss, 0) / some.length;
  return mean(losses.slice(-size)) < (1 - FALL) * mean(losses.slice(-2 * size, -size));
}

/**
 * @param {HTMLElement} root @param {[tab: string, text: string][]} story what to do next, in which tab
 * @param {(steps: number) => void} more trains the run for more steps
 */
export function nextStep(root, story, more) {
  let isOver = false,
    steps = 0;
  const seen = () => kept("seen", visitor.token) ?? [],
    next = () => story.find(([tab]) => !seen().includes(tab));
  const open = () => {
    ask({ tab: next()?.[0] });
    announce("open", null);
  };
  const go = button("", open, { class: "b-next", id: "next-step" }),
    further = button("", () => more(steps), { id: "go-on" });
  root.append(el("p.b-next-line", go, further));
  function paint() {
    const to = next();
    go.textContent = to?.[1] ?? "";
    go.style.display = isOver && to ? "" : "none";
    further.style.display = isOver && steps ? "" : "none";
    further.textContent = `Go on for ${count(steps)} steps`;
  }
  on("question", ({ changed }) => {
    if (!changed.has("tab") || seen().includes(question.tab)) return;
    keep("seen", visitor.token, [...seen(), question.tab]);
    paint();
  });
  paint();
  return {
    /** @param {boolean} ended @param {number} [more] steps to offer */
    show(ended, more = 0) {
      isOver = ended;
      steps = more;
      paint();
    },
  };
}
