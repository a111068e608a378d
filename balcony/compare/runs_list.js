// The visitor's runs side by side: what differs between them, their last numbers, and the curves of those that the person
// has not unticked.

import { saveMenu } from "../parts/downloads.js";
import { asksFirst, keepingFocus, row, table } from "../controls.js";
import { disable, dot, el, fill, notes, plain, withTerms } from "../parts/elements.js";
import { count, loss, percent } from "../parts/numbers.js";
import { on, say } from "../frame/page.js";
import { answer } from "../frame/server.js";
import { Curves } from "../train/curves.js";
import { hasEnded, runs, STATUS_NAMES } from "./runs.js";
import { asking } from "../views.js";

const NO_NUMBERS = "No ticked run has numbers yet; tick one that has.";

const accuracy = (/** @type {number | null} */ value) => (value === null ? "–" : percent(value));
const COLUMNS = {
  "[[MLM]] [[loss]], last 20 steps": loss,
  "[[NSP]] loss, last 20 steps": loss,
  "Asked words right": accuracy,
  "Pairs right": accuracy,
};
const MOST_DIFFERING = 4; // settings of a run that are seen at once
const [IN_THE_CURVES, REMOVE] = ["In the curves", "Remove"].map((name) => el("span.b-unseen", name));

/** A number, with its name where the head of the table has no room. @param {string} name @param {...import("../parts/elements.js").Child} content */
const numberCell = (name, ...content) => el("td.b-number", { "data-name": plain(name) }, content);

/** What a run has otherwise than others of the list. @param {[label: string, name: string, value: string][]} differs */
function differing(differs) {
  const lines = differs.map(([label, name, value]) =>
      el("div", { title: name }, el("span", label), " ", el("b", value)),
    ),
    more = lines.slice(MOST_DIFFERING);
  return [
    lines.slice(0, MOST_DIFFERING),
    more.length > 0 && el("details", el("summary", `and ${more.length} more`), more),
  ];
}

class RunsList {
  /** @type {any[]} */
  rows = [];
  /** Runs whose curves are not drawn. @type {Set<string>} */
  unticked = new Set();
  /** The curves of runs. @type {Record<string, any>} */
  fetched = {};
  table = table(
    [
      IN_THE_CURVES,
      "Run",
      "What differs",
      withTerms("[[step|Steps]]"),
      ...Object.keys(COLUMNS).map((name) => withTerms(name)),
      REMOVE,
    ],
    [],
    { class: "b-table b-runs", id: "runs-table", numbers: 3 },
  );
  empty = el("p.b-empty", "Each run that you start is listed here, with its last numbers.");
  notes = el("div", { id: "runs-notes" });
  side = el("div");

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { trigger, options }) {
    this.trigger = trigger;
    this.hint = el("p.b-empty", options.hint);
    root.append(el("h2", "Which of your runs learned more?"), this.empty, this.notes, el("div.b-scroll", this.table));
    root.append(this.hint, this.side);
    this.chart = new Curves(this.side, options);
    const kinds = { id: "compared", what: "the compared curves", kinds: ["png"] },
      file = { name: "compared-curves", title: "Compared runs" };
    this.side.append(
      saveMenu(kinds, (kind) => (this.chart.others.length ? this.chart.save(kind, file) : say(NO_NUMBERS))),
    );
    this.compare = asking(this.side, () => this.drawChosen());
    const refresh = asking(root, () => this.list());
    on("runs", () => refresh());
    on("renamed", () => refresh());
    refresh();
    this.hide();
  }

  /** The rows of the runs that are drawn. */
  get ticked() {
    return this.rows.filter((row) => row.isKept && !this.unticked.has(row.run));
  }

  hide() {
    const isEmpty = this.rows.length === 0;
    this.side.hidden = this.table.hidden = this.hint.hidden = isEmpty;
    this.empty.hidden = !isEmpty;
  }

  async list() {
    if (!runs.visitor || !runs.shown) {
      this.rows = [];
      this.show();
      return;
    }
    const listed = await answer("listing");
    if (listed.error) return;
    fill(this.notes, notes(listed.notes));
    this.rows = listed.rows;
    this.show();
  }

  show() {
    const [body] = this.table.tBodies,
      lines = this.rows.map((row) => this.line(row));
    keepingFocus(body, () => fill(body, lines));
    this.hide();
    this.compare();
  }

  line(run) {
    const { title, status, reason, differs, step, steps, numbers, held } = run;
    const name = el("div", title, el("small", { title: reason || null }, STATUS_NAMES[status].toLowerCase()));
    const measures = Object.entries(COLUMNS).map(([column, words], k) =>
      numberCell(column, numbers ? words(numbers[k]) : "–", held && el("small", `${words(held[k])} held-out`)),
    );
    return row(
      [
        el("td.b-tick", this.tick(run)),
        el("td.b-run-name", dot(run.colour, run.isDotted), name),
        el("td.b-differs", differing(differs)),
        numberCell("Steps", step === steps ? count(steps) : `${count(step)} of ${count(steps)}`),
        ...measures,
        el("td.b-removal", this.removal(run)),
      ],
      { "data-run": run.run, "data-status": status },
    );
  }

  /** Whether a run is drawn. @param {any} run */
  tick({ run, number, title, isKept }) {
    const tick = el("input", { type: "checkbox", "aria-label": `In the curves: ${title}`, "data-key": number });
    tick.checked = isKept && !this.unticked.has(run);
    tick.disabled = !isKept;
    tick.addEventListener("change", () => {
      if (tick.checked) this.unticked.delete(run);
      else this.unticked.add(run);
      this.compare();
    });
    return tick;
  }

  removal({ run, number, title, status }) {
    const remove = () => {
      runs.remove(run);
      this.trigger("remove", { run });
    };
    const asked = `Remove “${title}” with its curves and its model? It cannot come back.`,
      item = asksFirst("Remove", { id: `remove-${number}`, "aria-label": `Remove: ${title}` }, asked, remove);
    const opener = /** @type {HTMLButtonElement} */ (item.querySelector("button"));
    disable(opener, !hasEnded(status) && "Stop this run first", "Remove from the list");
    return item;
  }

  /** Draw the curves of the chosen runs. */
  async drawChosen() {
    const { fetched, ticked } = this,
      chosen = ticked.map((row) => row.run);
    const curves = ticked.map(async ({ run, status, title }) => {
      const had = fetched[run];
      if (had?.status === status && had.title === title && hasEnded(status)) return; // that of an active run grows
      fetched[run] = { ...(await answer("curve", run)), status, title };
    });
    await Promise.all(curves);
    this.chart.change({ others: chosen.map((run) => fetched[run]).filter(({ error }) => !error) });
  }
}

/** @type {View} */
export const view = (root, context) => void new RunsList(root, context);
