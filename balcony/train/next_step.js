// After a run: more steps, and one thing to do next.

import { button, disable, el } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { onPart, openTab, question } from "../frame/question.js";

/**
 * @param {HTMLElement} root @param {[tab: string, text: string][]} story what to do next, in which tab
 * @param {(steps: number) => void} train goes on
 */
export function nextStep(root, story, train) {
  let isOver = false,
    at = 0, // the step at which the run has ended
    left = 0; // steps of the run that it has not done
  const seen = new Set(), // tabs
    next = () => story.find(([tab]) => !seen.has(tab));
  const go = button("", () => openTab({ tab: next()?.[0] }), { id: "next-step" }),
    steps = el("input", { type: "number", min: 1, "aria-label": "More steps", id: "more-steps", oninput: name }),
    longer = button("", () => train(Number(steps.value)), { id: "go-on" }),
    line = el("p.b-next-line", steps, longer, go);
  root.append(line);
  function name() {
    const { value, validity } = steps,
      isRest = left > 0 && Number(value) === left;
    longer.textContent = isRest
      ? `Train the remaining ${count(left)} steps`
      : `Train ${count(Number(value))} more steps`;
    disable(longer, !(value && validity.valid) && "Type a number of steps.");
  }
  function paint() {
    const to = next();
    go.textContent = to?.[1] ?? "";
    line.hidden = !isOver;
    go.hidden = !to;
  }
  onPart(["tab"], () => {
    seen.add(question.tab);
    paint();
  });
  paint();
  return {
    /** @param {{status: string, step: number, steps: number} | null} [news] of the run @param {boolean} [hasMore] whether more steps may help */
    show(news, hasMore = false) {
      isOver = news?.status === "finished" || news?.status === "stopped";
      // One of the buttons is the one to press.
      longer.className = hasMore ? "b-next" : "b-small";
      go.className = hasMore ? "b-small" : "b-next";
      paint();
      if (news?.step === at) return; // what a person has typed stays
      at = news?.step ?? 0;
      left = (news?.steps ?? 0) - at;
      steps.value = `${left || at}`;
      name();
    },
  };
}
