// After a run: one thing to do next, and what its verdict advises.

import { button, el } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { announce, keep, kept, on, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

/**
 * @param {HTMLElement} root @param {[tab: string, text: string][]} story what to do next, in which tab
 * @param {(advice: string, steps: number) => void} follow does what the verdict advises
 */
export function nextStep(root, story, follow) {
  let isOver = false,
    advised = "",
    steps = 0;
  const seen = () => kept("seen", visitor.token) ?? [],
    next = () => story.find(([tab]) => !seen().includes(tab));
  const open = () => {
    ask({ tab: next()?.[0] });
    announce("open", null);
  };
  const go = button("", open, { class: "b-next", id: "next-step" }),
    further = button("", () => follow(advised, steps), { class: "b-next", id: "go-on" });
  root.append(el("p.b-next-line", further, go));
  function paint() {
    const to = next();
    go.textContent = to?.[1] ?? "";
    go.style.display = isOver && to ? "" : "none";
    further.style.display = isOver && advised ? "" : "none";
    further.textContent = advised === "slower" ? "Train again, learning rate ÷ 10" : `Train ${count(steps)} more steps`;
  }
  on("question", ({ changed }) => {
    if (!changed.has("tab") || seen().includes(question.tab)) return;
    keep("seen", visitor.token, [...seen(), question.tab]);
    paint();
  });
  paint();
  return {
    /** @param {boolean} ended @param {string} [advice] "longer", "slower" or "" @param {number} [more] steps to offer */
    show(ended, advice = "", more = 0) {
      isOver = ended;
      advised = advice;
      steps = more;
      paint();
    },
  };
}
