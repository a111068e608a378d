// The statuses of a run, as ui and bert_core/runs/run.py name them.

/** What the page calls each status. */
export const STATUS_NAMES = {
  queued: "Queued", running: "Training", paused: "Paused", finished: "Finished", stopped: "Stopped", failed: "Failed",
};
const ENDED = new Set(["finished", "stopped", "failed"]);

/** @param {string} status */
export const hasEnded = (status) => ENDED.has(status);
