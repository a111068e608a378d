// Which sentence taught it: the trainings without each sentence, and what a hidden word loses by them.

import { level } from "../colours.js";
import { progress, scrolling, table } from "../controls.js";
import { orError, polling, say } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { button, el, fill, note, notes, svg, tools, withTerms } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { duration, fixed } from "../parts/numbers.js";

/** @typedef {{falls: (number | null)[], errors: (number | null)[], marks: (number | null)[]}} Told row by row; marks: 1 or −1 where it is more than another seed alone changes, null while that is not known */
/** @typedef {Told & {sentences: string[], words: [word: string, text: string, pair: string | null, number: number][]}} Words of the text */
/** @typedef {ReturnType<typeof heatMap>} HeatMap */
/** @typedef {{sentences: number, seeds: number, trainings: number, seconds: number}} Before */
/** @typedef {{of: number, done: number, isActive: boolean, reason: string, fraction: number, left: number | null, seed: number, row: number}} Progress */

const ASK_MS = 1000,
  HIDDEN_MS = 60000; // a hidden page only renews the lease
const HINT =
  "Point at a cell to read it; press it to hide that word above. Where all seeds are done, a change has a colour only if it is more than another seed alone changes.";

/** A fall with its standard error. @param {number | null} fall @param {number | null} error */
const told = (fall, error) => (fall === null ? "–" : `${fixed(fall)}${error === null ? "" : ` ± ${error.toFixed(2)}`}`);

/** A bar from 0 to the fall, and a line of its standard error on both sides. @param {number} fall @param {number} error @param {[number, number]} ends */
function whisker(fall, error, [least, most]) {
  const x = (/** @type {number} */ value) => (100 * (value - least)) / (most - least),
    [from, to] = [Math.min(0, fall), Math.max(0, fall)],
    size = { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", class: "b-whisker" };
  return svg(
    "svg",
    size,
    svg("rect", { x: x(from), y: 1, width: x(to) - x(from), height: 8, class: fall < 0 ? "is-less" : null }),
    svg("path", { d: `M${x(0)} 0v10` }),
    svg("path", { d: `M${x(fall - error)} 5H${x(fall + error)}`, class: "b-whisker-error" }),
  );
}

/** A bar for each sentence. @param {Told & {masks: string[], mask: number | null, map: Words}} value */
function bars({ falls, errors, marks, masks, mask, map }) {
  const sides = falls.flatMap((fall, k) => [(fall ?? 0) - (errors[k] ?? 0), (fall ?? 0) + (errors[k] ?? 0)]),
    /** @type {[number, number]} */
    ends = [Math.min(0, ...sides), Math.max(0.1, ...sides)];
  const lines = map.sentences.map((sentence, k) => [
    el("span.b-taught", `${k + 1}. `, el("bdi", sentence)),
    el("td.b-taught-bar", falls[k] !== null && whisker(falls[k], errors[k] ?? 0, ends)),
    told(falls[k], errors[k]),
    marks[k] === 1 && el("b", { title: "More than another seed alone changes" }, "✓"),
  ]);
  const of = mask === null ? "Mean of the words above" : el("bdi.b-hidden-word", masks[mask]);
  return scrolling("Falls by sentence", table(["Sentence left out", of, "Fall", ""], lines));
}

/** @param {HeatMap} map @param {Words} value */
function drawMap(map, { sentences, words, falls, errors, marks }) {
  const top = Math.max(1, ...falls.map((fall) => Math.abs(fall ?? 0))),
    at = (/** @type {number} */ i, /** @type {number} */ j) => i * words.length + j;
  map.draw({
    rows: sentences.map((sentence, i) => `${i + 1}. ${sentence}`),
    columns: words.map(([word]) => word),
    values: falls.map((fall, k) => (marks[k] === 0 ? 0 : fall)),
    level: (fall) => level(fall / top),
    ticks: [-1, 0, 1, 5],
    measure: "Fall of the log-probability",
    axes: "All words of the text: a row is the sentence that is left out, a column the word that is asked.",
    hint: HINT,
    label: "What each word loses without each sentence; the arrow keys go from cell to cell",
    describe: (i, j) => [
      el("bdi", words[j][0]),
      `, without sentence ${i + 1}: ${told(falls[at(i, j)], errors[at(i, j)])}`,
    ],
    press(_, j) {
      const [, text, pair, number] = words[j];
      ask({ text, pair: pair ?? "", hidden: [number] });
    },
  });
}

/** How far it is, in words. @param {Progress & {before?: Before}} value */
function state({ before, of, done, isActive, reason, left, seed, row }) {
  if (before)
    return `The model is trained again without each of the ${before.sentences} sentences of its text, with ${before.seeds} seeds: ${before.trainings} trainings, about ${duration(before.seconds)} when nothing else trains here.`;
  if (!isActive) return reason || `All ${of} trainings have ended.`;
  const what = row ? `seed ${seed}, without sentence ${row}` : `seed ${seed}, the whole text`,
    time = left === null ? "" : `, about ${duration(left)} left`;
  return `Training ${done + 1} of ${of}: ${what}${time}.`;
}

/** @returns what draws a value and returns its part of the page, which stays */
export function taughtView() {
  const status = el("p.b-reason", { role: "status", id: "taught-status" }),
    bar = progress("Progress of the trainings"),
    start = button("", () => press("teach"), { id: "taught-start" }),
    stop = button("Stop", () => press("stop-teaching"), { id: "taught-stop" }),
    [numbers, how, map] = [el("div"), el("div"), heatMap()],
    element = el("div.b-trial", status, bar, tools(start, stop), numbers, map.element, how);
  let done = -1; // trainings of which the page has the numbers

  /** @param {string} name */
  async function press(name) {
    const { error } = await orError(answer(name));
    if (error) say(error);
    done = -1;
    poll();
  }

  const poll = polling(async () => {
    const { number, view } = question;
    if (view !== "taught") return undefined;
    const news = await answer("taught", done);
    if (news.error) say(news.error);
    else if (number === question.number) show(news);
    return news.isActive ? ASK_MS : undefined;
  }, HIDDEN_MS);

  /** @param {any} value */
  function show(value) {
    const { before, isActive = false } = value;
    status.textContent = state(value);
    bar.hidden = stop.hidden = !isActive;
    bar.value = value.fraction ?? 0;
    start.hidden = isActive;
    start.textContent = before ? `Train ${before.trainings} times` : "Train again";
    if (isActive && value.done === done) return; // the numbers are there
    done = value.done;
    map.element.hidden = !value.map;
    fill(numbers, value.missing && note(value.missing), value.answer && el("p.b-answer", value.answer));
    if (value.answer) numbers.append(bars(value));
    fill(
      how,
      notes(value.notes ?? []),
      value.said?.map((/** @type {string} */ text) => el("p.b-empty", withTerms(text))),
    );
    if (value.map) drawMap(map, value.map);
  }

  return function draw(/** @type {any} */ value) {
    done = -1;
    show(value);
    if (value.isActive) poll();
    return element;
  };
}
