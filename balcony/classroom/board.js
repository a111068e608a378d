// The Class tab: sharing one's run, and the board of shared runs: a table, and all curves in one chart; for the teacher also
// how to join, and the limits of runs.

import { asksFirst, keepingFocus, row, scrolling, table } from "../controls.js";
import { button, changes, dot, el, fill, own, withTerms } from "../parts/elements.js";
import { saveMenu } from "../parts/downloads.js";
import { count, loss } from "../parts/numbers.js";
import { keep, kept } from "../frame/page.js";
import { Curves } from "../train/curves.js";
import { STATUS_NAMES } from "../compare/runs.js";
import { act, follow, room, teach } from "./state.js";

/** @import { SharedRun } from "./state.js" */

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings and loss curve, while it " +
  "trains and after that. Your text and your model stay yours.";
const NO_RUN = "No run is on the board yet. Train one, type a name above, and share it.";
const CLEAR = "Take all runs off the board? Only the person who shared a run can share it again.";
const COLUMNS = ["Name", "Run", "Sentences", "Seed", "Learning rate", "Step"];
const LOSSES = ["MLM loss, last 20 steps", "NSP loss, last 20 steps"];

/** @param {string} name @param {HTMLElement} input */
const named = (name, input) => el("label.class-field", name, input);

/** The teacher's part. */
function desk() {
  const join = el("div.class-join"),
    status = el("p", { role: "status" });
  const limit = async () => {
    const { error } = await teach("limit", steps.valueAsNumber, parameters.valueAsNumber);
    status.textContent = error ?? "Done.";
  };
  const steps = el("input", { id: "class-steps", type: "number", min: 1, onchange: limit }),
    parameters = el("input", { id: "class-parameters", type: "number", min: 1, onchange: limit });
  const way = (/** @type {string} */ address) => [
    el("h3", "Join at"),
    el("p.class-address", address),
    el("p.b-empty", "Others in the same network open this address or scan the code."),
  ];
  teach("enter").then(({ error, address, code, ...limits }) => {
    status.textContent = error ?? "";
    if (error) return;
    [steps.value, parameters.value] = [limits.steps, limits.parameters];
    fill(join, el("img.class-code", { src: code, alt: `QR code of ${address}` }), el("div", way(address)));
  });
  const limits = el("div.b-tools", named("Most steps of a run", steps), named("Most parameters", parameters));
  return el("section.class-desk", { "aria-label": "For the teacher" }, join, el("div.class-settings", limits, status));
}

function shareForm() {
  const value = kept("class-name") ?? "",
    name = el("input", { id: "class-name", type: "text", maxlength: 24, autocomplete: "off", value }),
    status = el("p", { role: "status" }),
    submit = el("button.b-small", { type: "submit", id: "class-share" }, "Share my run");
  /** @param {string} action @param {any[]} values */
  const press = async (action, ...values) => {
    status.textContent = (await act(action, ...values)).error ?? "";
  };
  const onsubmit = (/** @type {Event} */ event) => {
    event.preventDefault();
    keep("class-name", name.value);
    press("share", name.value);
  };
  const remove = button("Take it off", () => press("withdraw"), { id: "class-withdraw" });
  follow(() => {
    remove.hidden = room.own === null;
    submit.textContent = room.own === null ? "Share my run" : "Share my newest run";
  });
  const tools = el("div.b-tools", named("Your name on the board", name), submit, remove);
  return el("form.class-share", { onsubmit }, tools, el("p.b-empty", PRIVACY), status);
}

/** The runs. @param {any} options of their chart */
function board(options) {
  const head = [...COLUMNS, ...LOSSES, room.teacher && el("span.b-unseen", "Remove")].filter(Boolean),
    runs = table(head, [], { class: "b-table class-runs", id: "class-runs", numbers: 2 }),
    empty = el("p.b-empty", NO_RUN),
    isNew = changes();
  const save = async (/** @type {string} */ kind) =>
    chart.save(kind, kind === "csv" ? await act("board") : { name: "board", title: "The runs of the class" });
  const kinds = { id: "board", what: "the board", kinds: ["csv", "png"] },
    menu = saveMenu(kinds, (kind) => save(kind).catch(console.warn)),
    clear = room.teacher && asksFirst("Clear the board", { id: "class-clear" }, CLEAR, () => teach("clear")),
    whole = el("div", el("div.b-tools", menu, clear), scrolling("The board", runs)),
    chart = new Curves(whole, options);
  follow(() => {
    const shared = [...room.runs.values()].sort((one, other) => one.number - other.number),
      [body] = runs.tBodies;
    empty.hidden = shared.length > 0;
    whole.hidden = !shared.length;
    if (!isNew(shared, room.own)) return;
    keepingFocus(body, () => fill(body, shared.map(line)));
    chart.change({ others: shared.map(({ name, curve, ...run }) => ({ ...run, name: own(name), points: curve })) });
  });
  return [empty, whole];
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
  fill(root, room.teacher && desk(), shareForm(), board(options));
}
