// How the views of heads are drawn is a part of the question, without the settings that have their first value.

import { on } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { change, FIRST, onChange, settings } from "./heads.js";

const take = () => change({ ...FIRST, ...question.heads, picked: question.head, off: question.off });
take();
on("restored", take);
on("question", ({ changed }) => changed.has("off") && (changed.size > 1 ? take() : change({ off: question.off })));
document.addEventListener("ask", (event) => ask(/** @type {CustomEvent} */ (event).detail));
onChange(() => {
  const { picked, ...drawn } = settings,
    changed = Object.entries(drawn).filter(([key, value]) => key !== "off" && value !== FIRST[key]);
  ask({ head: picked, heads: Object.fromEntries(changed) });
});
