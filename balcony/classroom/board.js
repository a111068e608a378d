// The Class tab: sharing one's run, and the board of shared runs: a table, and all curves in one chart.

import { asksFirst, keepingFocus, row, scrolling, table } from "../controls.js";
import { button, dot, el, fill, own, withTerms } from "../parts/elements.js";
import { saveMenu } from "../parts/downloads.js";
import { count, loss } from "../parts/numbers.js";
import { Curves } from "../train/curves.js";
import { STATUS_NAMES } from "../compare/runs.js";
import { desk, named } from "./desk.js";
import { act, follow, room, teach } from "./state.js";

/** @import { SharedRun } from "./state.js" */

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings and loss curve, while it " +
  "trains and after that. Your text and your model stay yours.";
const NO_RUN = "No run is on the board yet. Train one, type a name above, and share it.";
const CLEAR = "Take all runs off the board? Only the person who shared a run can share it again.";
const COLUMNS = ["Name", "Run", "Sentences", "Seed", "Learning rate", "Step"];
const LOSSES = ["MLM loss, last 20 steps", "NSP loss, last 20 steps"];

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
  });
  return form;
}

class Board {
  drawn = "";
  table = table([...COLUMNS, ...LOSSES, room.teacher && el("span.b-unseen", "Remove")].filter(Boolean), [], {
    class: "b-table class-runs",
    id: "class-runs",
    numbers: 2,
  });
  empty = el("p.b-empty", NO_RUN);

  /** @param {any} chart options of the chart */
  constructor(chart) {
    const kinds = { id: "board", what: "the board", kinds: ["csv", "png"] },
      clear = room.teacher && asksFirst("Clear the board", { id: "class-clear" }, CLEAR, () => teach("clear")),
      tools = el(
        "div.b-tools",
        saveMenu(kinds, (kind) => this.save(kind).catch(console.warn)),
        clear,
      );
    this.whole = el("div", tools, scrolling("The board", this.table));
    this.element = el("div", this.empty, this.whole);
    this.chart = new Curves(this.whole, chart);
    follow(() => this.paint());
  }

  paint() {
    const runs = [...room.runs.values()].sort((one, other) => one.number - other.number),
      [body] = this.table.tBodies;
    this.empty.hidden = runs.length > 0;
    this.whole.hidden = !runs.length;
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

  /** Save the table or the chart. @param {string} kind */
  async save(kind) {
    this.chart.save(kind, kind === "csv" ? await act("board") : { name: "board", title: "The runs of the class" });
  }
}

/** @param {SharedRun} run */
function line({ number, name, colour, isDotted, title, recipe, sentences, seed, rate, step, steps, status, losses }) {
  const ask = withTerms(`Take this run off the board? It is of ${own(name)}.`);
  const remove = () => asksFirst("Remove", { id: `class-remove-${number}` }, ask, () => teach("clear", number));
  const cells = [
    el("span.b-side", dot(colour, isDotted), own(name)),
    [el("bdi", title), el("small", `${recipe}.`)],
    count(sentences),
    seed,
    `${rate}`,
    [`${count(step)} of ${count(steps)}`, el("small", STATUS_NAMES[status].toLowerCase())],
    ...losses.map((each) => loss(each)),
  ];
  const kind = number === room.own ? "class-run is-own" : "class-run";
  return row([...cells, ...(room.teacher ? [el("td", remove())] : [])], { class: kind, "data-number": number }, 2);
}

/** @type {View} */
export function view(root, { options }) {
  fill(root, room.teacher && desk(), shareForm(), new Board(options).element);
}
