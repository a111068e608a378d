// The statuses of a run, as balcony and bert_core/runs/run.py name them, and the run that is shown.

import { announce } from "../frame/page.js";
import { ask, question } from "../frame/question.js";

export const STATUS_NAMES = {
  queued: "Queued",
  running: "Training",
  paused: "Paused",
  finished: "Finished",
  stopped: "Stopped",
  failed: "Failed",
};
const ENDED = new Set(["finished", "stopped", "failed"]);

/** @param {string} status */
export const hasEnded = (status) => ENDED.has(status);

// Shared by the list, the experiments and the curves: whose runs, and the run that the page shows.
export const runs = {
  visitor: /** @type {string | null} */ (null),
  shown: /** @type {string | null} */ (null),
  removed: /** @type {Set<string>} */ (new Set()), // by the person, in this page
  /** The page shows another run, or the status of the shown one changed. */
  show(visitor, run) {
    Object.assign(runs, { visitor, shown: run });
    announce("runs", null);
  },
  /** The person removes a run; the page shows another model. @param {string} run */
  remove(run) {
    runs.removed.add(run);
    if (question.other.split("@")[0] === run) ask({ other: "" });
    if (question.model === run) ask({ model: "", step: null });
  },
};
