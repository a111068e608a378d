// The Class tab: sharing one's run, and the board of shared runs: a table that each column sorts, and all curves in one chart.

import { asksFirst, keepingFocus, scrolling, table } from "../controls.js";
import { button, disable, dot, el, fill, own, withTerms } from "../parts/elements.js";
import { saveMenu, saveText } from "../parts/downloads.js";
import { count, loss } from "../parts/numbers.js";
import { Curves } from "../train/curves.js";
import { STATUS_NAMES } from "../compare/runs.js";
import { desk, named } from "./desk.js";
import { act, follow, room, teach } from "./state.js";

/** @import { Child } from "../parts/elements.js" */
/** @import { SharedRun } from "./state.js" */

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings, loss curve and verdict, while it " +
  "trains and after that. Your text and your model stay yours.";
const NO_RUN = "No run is on the board yet. Train one, type a name above, and share it.";
const CLEAR = "Take all runs off the board? Only the person who shared a run can share it again.";
const NO_PICTURE = "The browser could not make the picture. The board stays.";
const UNSAVED = "The board has changed since it was saved.";

/** Each column: its name, what it is sorted by, and what a cell shows; numbers stand at the end of their cell. @type {[name: string, by: (run: SharedRun) => string | number | null, cell: (run: SharedRun) => Child, isNumber?: boolean][]} */
const COLUMNS = [
  ["Name", ({ name }) => name, ({ name, colour, isDotted }) => el("span.b-side", dot(colour, isDotted), own(name))],
  ["Run", ({ title }) => title, ({ title, recipe }) => [el("bdi", title), el("small", `${recipe}.`)]],
  ["Sentences", ({ sentences }) => sentences, ({ sentences }) => count(sentences), true],
  ["Seed", ({ seed }) => Number(seed), ({ seed }) => seed, true],
  ["Learning rate", ({ rate }) => rate, ({ rate }) => `${rate}`, true],
  [
    "Step",
    ({ step }) => step,
    ({ step, steps, status }) => [`${count(step)} of ${count(steps)}`, el("small", STATUS_NAMES[status].toLowerCase())],
    true,
  ],
  ["MLM loss, last 20 steps", ({ losses }) => losses[0], ({ losses }) => loss(losses[0]), true],
  ["NSP loss, last 20 steps", ({ losses }) => losses[1], ({ losses }) => loss(losses[1]), true],
  ["Verdict", ({ verdict }) => verdict, ({ verdict }) => verdict && el("div.class-verdict", { dir: "auto" }, verdict)],
];

/** @param {string | number | null} one @param {string | number | null} other */
function compare(one, other) {
  if (typeof one === "string" && typeof other === "string")
    return one.localeCompare(other, undefined, { numeric: true, sensitivity: "base" });
  return Number(one) - Number(other);
}

function shareForm() {
  const own = room.kept.get("name") ?? "",
    name = el("input", { id: "class-name", type: "text", maxlength: 24, autocomplete: "off", value: own }),
    status = el("p", { role: "status" }),
    submit = el("button.b-small", { type: "submit", id: "class-share" }, "Share my run");
  const withdraw = async () => {
    status.textContent = (await act("withdraw")).error ?? "";
  };
  const remove = button("Take it off", withdraw, { id: "class-withdraw" });
  const share = async () => {
    const { error } = await act("share", name.value);
    if (!error) room.kept.set("name", name.value);
    status.textContent = error ?? "";
  };
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    share().catch(console.warn);
  };
  const tools = el("div.b-tools", named("Your name on the board", name), submit, remove),
    form = el("form.class-share", { onsubmit: send }, tools, el("p.b-empty", PRIVACY), status);
  follow(() => {
    remove.hidden = room.own === null;
    submit.textContent = room.own === null ? "Share my run" : "Share my newest run";
    disable(submit, !room.sharing && "Your teacher has turned sharing off.");
    form.hidden = !room.sharing && room.own === null;
  });
  return form;
}

class Board {
  sorted = -1; // the column; before one is chosen, in the order of sharing
  isFalling = false;
  drawn = "";
  heads = COLUMNS.map(([name, , , isNumber], k) =>
    el(
      isNumber ? "th.b-number" : "th",
      { scope: "col", "aria-sort": "none" },
      button(name, () => this.sort(k), { class: "class-sort", title: "Sort by this column" }),
    ),
  );
  table = table([...this.heads, room.teacher && el("span.b-unseen", "Remove")].filter(Boolean), [], {
    class: "b-table class-runs",
    id: "class-runs",
  });
  empty = el("p.b-empty", NO_RUN);
  unsaved = el("p.b-empty", { id: "class-unsaved" }, UNSAVED);
  status = el("p", { role: "status" });

  /** @param {any} chart options of the chart */
  constructor(chart) {
    const kinds = { id: "board", what: "the board", kinds: ["csv", "png"] };
    const save = (/** @type {string} */ kind) => this.save(kind).catch(console.warn);
    const both = async () => {
      if ((await this.save("csv")) && (await this.save("png"))) await teach("clear");
    };
    const first = button("Save and clear", () => both().catch(console.warn), { id: "class-clear-save" }),
      clear = asksFirst("Clear the board", { id: "class-clear" }, CLEAR, () => teach("clear"), first);
    this.tools = el("div.b-tools", saveMenu(kinds, save), room.teacher && clear, room.teacher && this.unsaved);
    this.whole = el("div", this.tools, scrolling("The board", this.table), this.status);
    this.element = el("div", this.empty, this.whole);
    this.chart = new Curves(this.whole, chart);
    this.chart.change({ isSmooth: false });
    follow(() => this.paint());
  }

  /** @param {number} column */
  sort(column) {
    this.isFalling = this.sorted === column && !this.isFalling;
    this.sorted = column;
    this.heads.forEach((head, k) => {
      head.ariaSort = k !== column ? "none" : this.isFalling ? "descending" : "ascending";
    });
    this.paint();
  }

  /** The runs in their order; one without a value comes last. */
  get runs() {
    const by = COLUMNS[this.sorted]?.[1] ?? (({ number }) => number),
      sign = this.isFalling ? -1 : 1,
      isNone = (/** @type {SharedRun} */ run) => by(run) === null || by(run) === "";
    return [...room.runs.values()].sort(
      (one, other) => Number(isNone(one)) - Number(isNone(other)) || sign * compare(by(one), by(other)),
    );
  }

  paint() {
    const { runs } = this,
      [body] = this.table.tBodies;
    this.empty.hidden = runs.length > 0;
    this.whole.hidden = !runs.length;
    this.unsaved.hidden = !runs.some(({ version }) => version > (room.kept.get("saved") ?? 0));
    const key = JSON.stringify([runs.map(({ number, version }) => [number, version]), room.own]);
    if (key === this.drawn) return;
    this.drawn = key;
    keepingFocus(body, () => fill(body, runs.map(line)));
    const others = runs.map(({ name, colour, isDotted, steps, curve }) => ({
      ...{ name: own(name), colour, isDotted, steps },
      points: curve,
    }));
    this.chart.change({ others });
  }

  /** Save the table or the chart. @param {string} kind @returns {Promise<boolean>} whether it is saved */
  async save(kind) {
    this.status.textContent = "";
    if (kind !== "csv") {
      const made = this.chart.picture("The runs of the class", "board").then(() => true);
      return made.catch(() => {
        this.status.textContent = NO_PICTURE;
        return false;
      });
    }
    const { content, version, error } = await act("board");
    this.status.textContent = error ?? "";
    if (error) return false;
    saveText(content, "board.csv");
    room.kept.set("saved", version);
    this.paint();
    return true;
  }
}

/** @param {SharedRun} run */
function line(run) {
  const { number, name } = run;
  const ask = withTerms(`Take this run off the board? It is of ${own(name)}.`);
  const remove = () => asksFirst("Remove", { id: `class-remove-${number}` }, ask, () => teach("clear", number));
  const cells = COLUMNS.map(([, , cell, isNumber], k) =>
    k ? el(isNumber ? "td.b-number" : "td", cell(run)) : el("th", { scope: "row" }, cell(run)),
  );
  const kind = number === room.own ? "class-run is-own" : "class-run";
  return el("tr", { class: kind, "data-number": number }, cells, room.teacher && el("td", remove()));
}

/** @type {View} */
export function view(root, { options }) {
  fill(root, room.teacher && desk(), shareForm(), new Board(options).element);
}
