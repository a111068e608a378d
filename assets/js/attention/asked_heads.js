// How the views of heads are drawn is a part of the question, without the settings that have their first value.

import { on } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { change, FIRST, onChange, settings } from "./heads.js";

function take() {
  const { active, ...drawn } = question.heads;
  change({
    ...FIRST,
    ...drawn,
    picked: question.head,
    off: question.off,
    active: Array.isArray(active) ? new Set(active) : null,
  });
}
take();
on("restored", take);
on("question", ({ changed }) => changed.has("off") && (changed.size > 1 ? take() : change({ off: question.off })));
document.addEventListener("ask", (event) => ask(/** @type {CustomEvent} */ (event).detail));
onChange(() => {
  const { picked, active, ...drawn } = settings;
  const heads = Object.fromEntries(
    Object.entries(drawn).filter(([key, value]) => key !== "off" && value !== FIRST[key]),
  );
  ask({ head: picked, heads: active ? { ...heads, active: [...active] } : heads });
});
