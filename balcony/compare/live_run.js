// A run that trains, live, in Train and in Fine-tune. The page polls with its cursors and gets what is new: a few numbers and
// never the whole curve, so that many pages cost the server little.

import { progress } from "../controls.js";
import { el, fill, withTerms } from "../parts/elements.js";
import { announce, polling, RETRY_MS } from "../frame/page.js";
import { question } from "../frame/question.js";
import { answer } from "../frame/server.js";

/** Why no news come where the server answers otherwise. */
const BLOCKED =
  "Something between this page and the server blocks /balcony/ask, such as an extension of the browser. Allow it to see the numbers; the run continues.";
const ALONE =
  "If the server is still there, the run continues without this page; on a server for many, it pauses after 10 minutes.";
const HIDDEN_MS = 60000; // a hidden page only renews the lease
const EAGER_MS = 120;
const EAGER_POLLS = 5; // after a press: its effect takes a little time
const MOST_POINTS = 3000; // with more, the page fetches the curve again, thinned
const FIRST = [0, -1, 0]; // the cursors of a new page; later ones come with each answer

/** A run's status in words, and how far it is. @param {string} name of the progress bar @param {string} id beginning of the ids */
export function statusLine(name, id) {
  const title = el("p.b-status", { role: "status", id: `${id}-status` }),
    reason = el("p.b-reason", { dir: "auto" }),
    of = el("p.b-empty.b-status-of", { id: `${id}-of`, hidden: "" }),
    line = el("div.b-status-line", title, reason, of),
    bar = progress(name);
  return {
    line,
    bar,
    /** The status decides the title's colour. @param {string} words @param {string} text @param {string} [status] */
    say(words, text, status = "") {
      fill(title, words);
      fill(reason, withTerms(text)); // its sentences are translated whole, with a person's words
      title.dataset.status = status;
    },
    /** Name the run where the page shows another model. @param {string} [key] of the run @param {string} [run] */
    name(key, run) {
      of.hidden = !key || key === question.model;
      if (!of.hidden) of.textContent = `This is “${run}”; the model chosen above is another one.`;
    },
  };
}

/** No news come. @param {{say: (words: string, text: string) => void}} board */
async function sayWhy(board) {
  const health = await fetch("health", { cache: "no-store" })
    .then((answer) => answer.json())
    .catch(() => null);
  if (!health) board.say("Connection lost", `Trying again. ${ALONE}`);
  else board.say("No news of the run", health.error ?? BLOCKED);
}

/** Keep what is new in a run. Returns whether its status is another one. @param {any} live @param {import("../train/curves.js").Curves} chart @param {any} news */
function received(live, chart, { cursors, points, held = [], snapshots, steps, status }) {
  const { run } = live,
    isWhole = live.cursors === FIRST,
    isOther = status !== live.status;
  if (isWhole || points.length || held.length || steps !== run.steps) {
    run.steps = steps;
    const before = isWhole ? { points: [], held: [] } : chart;
    chart.change({ run, points: [...before.points, ...points], held: [...before.held, ...held] });
  }
  Object.assign(live, { cursors, status });
  if (points.length || snapshots.length) announce("snapshots", { run: run.run, steps: snapshots, points });
  if (isOther) announce("status", null);
  return isOther;
}

/**
 * Follow a run, whose points go into a chart.
 * @param {Pick<ReturnType<typeof statusLine>, "say">} board @param {import("../train/curves.js").Curves} chart
 * @param {{take: (news: any, isOther: boolean) => void, lose: (run: string, why: string) => void}} of what to do with news, which tell of
 * another status or not, and for a run that the server does not have
 */
export function follow(board, chart, { take, lose }) {
  let eager = 0, // polls to send quickly
    isLost = false;
  const live = {
    run: /** @type {any} */ (null),
    status: "",
    cursors: FIRST,
    /** Show another run from its first step, or none. @param {any} run */
    show(run) {
      Object.assign(live, { run, status: "", cursors: FIRST });
      chart.begin(run);
    },
    poll: polling(ask, HIDDEN_MS),
    /** Ask at once, since a press has changed something. */
    hurry() {
      eager = EAGER_POLLS;
      live.poll();
    },
  };

  /** Get what is new; the answer is when to ask again. @returns {Promise<number | void>} */
  async function ask() {
    const { run } = live;
    if (!run) return;
    if (!chart.zoom && chart.points.length > MOST_POINTS) live.cursors = FIRST;
    const news = await answer("news", run.run, live.cursors).catch(() => null);
    if (!news) {
      isLost = true;
      await sayWhy(board);
      return RETRY_MS;
    }
    if (isLost) announce("again", null);
    isLost = false;
    if (run !== live.run) return 0;
    if (news.error) {
      live.run = null;
      return lose(run.run, news.error);
    }
    if (news.step < live.cursors[0]) {
      live.cursors = FIRST; // the server has restarted, and the run is at an earlier step
      return 0;
    }
    take(news, received(live, chart, news));
    eager = Math.max(0, eager - 1);
    return eager ? Math.min(EAGER_MS, news.poll_ms) : news.poll_ms;
  }

  return live;
}
