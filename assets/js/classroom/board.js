// The Class tab: how to join, what the teacher sets, sharing one's run, and the board of shared runs.

import { select, toggle } from "../controls.js";
import { button, disable, el, fill, svg } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { on } from "../frame/page.js";
import { act, follow, room, teach } from "./state.js";

/** @typedef {import("./state.js").SharedRun} SharedRun */

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings, loss curve and verdict. " +
  "Your text and your model stay yours. The board stays in memory until it is cleared or the program ends.";
const NO_RUN = "No run is on the board yet. Train one, type a name above, and share it.";

/** The losses as two lines. @param {SharedRun["curve"]} points */
function curve(points) {
  const last = points.at(-1)?.[0] ?? 1,
    top = Math.max(1e-9, ...points.flatMap(([, mlm, nsp]) => [mlm ?? 0, nsp ?? 0]));
  const line = (/** @type {1 | 2} */ k) => {
    const known = points.filter((point) => point[k] !== null);
    const places = known.map((point) => [(100 * point[0]) / last, 39 - (38 * (point[k] ?? 0)) / top]);
    return places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ");
  };
  return svg(
    "svg",
    { class: "class-curve", viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("polyline", { points: line(2), class: "class-nsp" }),
    svg("polyline", { points: line(1), class: "class-mlm" }),
  );
}

/** @param {SharedRun} run */
function card({ number, version, name, title, status, step, recipe, verdict, curve: points }) {
  const [, mlm, nsp] = points.at(-1) ?? [0, null, null];
  const loss = (/** @type {string} */ key, /** @type {string} */ name, /** @type {number | null} */ value) =>
    value !== null && [el(`span.class-${key}`, `${name} ${value.toFixed(2)}`), " "];
  const losses = [loss("mlm", "MLM loss", mlm), loss("nsp", "NSP loss", nsp)];
  return el(
    "li.b-card.class-run",
    { "data-version": version },
    el("h3", el("bdi", name)),
    curve(points),
    el("p", el("bdi", title), `: ${status}, step ${count(step)}. `, losses),
    el("p.b-empty", `${recipe}.`),
    verdict && el("p.class-verdict", { dir: "auto" }, verdict),
    room.teacher && button("Remove", () => teach("clear", number), { id: `class-remove-${number}` }),
  );
}

/** @param {string} id @param {Record<string, any>} attributes */
const field = (id, attributes) => el("input", { id, ...attributes });

/** @param {string} name @param {HTMLElement} input */
const named = (name, input) => el("label.class-field", name, input);

/** How to join. @param {{address: string, size: number, path: string}} way */
const joining = ({ address, size, path }) => [
  svg(
    "svg",
    { class: "class-code", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `QR code of ${address}` },
    svg("rect", { width: size, height: size, fill: "#fff" }),
    svg("path", { d: path, fill: "#000" }),
  ),
  el(
    "div",
    el("h3", "Join at"),
    el("p.class-address", address),
    el("p.b-empty", "Others in the same network open this address or scan the code."),
  ),
];

/** The teacher's part. @param {[name: string, title: string][]} lessons */
function desk(lessons) {
  const join = el("div.class-join"),
    status = el("p", { role: "status" }),
    list = select("Lesson", lessons, () => {}),
    link = field("class-link", { type: "text", placeholder: "copied with Copy link" });
  const run = async (/** @type {string} */ action, /** @type {any[]} */ ...values) => {
    status.textContent = (await teach(action, ...values)).error ?? "Done.";
  };
  const limit = () => run("limit", steps.valueAsNumber, parameters.valueAsNumber, sharing.checked),
    steps = field("class-steps", { type: "number", min: 1, onchange: limit }),
    parameters = field("class-parameters", { type: "number", min: 1, onchange: limit }),
    shared = toggle("Runs can be shared", limit, { id: "class-sharing" }),
    sharing = /** @type {HTMLInputElement} */ (shared.firstChild);
  list.id = "class-lesson";
  const send = () => {
    const own = link.value.trim();
    const title = lessons.find(([name]) => name === list.value)?.[1] ?? ""; // in English; each page translates it
    return own ? run("send", "", own) : run("send", title, `#lesson=${list.value}`);
  };
  teach("enter").then(({ error, address, size, path, steps: most, parameters: largest }) => {
    status.textContent = error ?? "";
    if (error) return;
    [steps.value, parameters.value] = [most, largest];
    fill(join, joining({ address, size, path }));
  });
  follow(() => {
    if (document.activeElement !== sharing) sharing.checked = room.sharing;
  });
  const sending = [list, named("or a link", link), button("Send", send, { id: "class-send" })],
    limits = [named("Most steps of a run", steps), named("Most parameters", parameters), shared],
    clear = button("Clear the board", () => run("clear"), { id: "class-clear" });
  return el(
    "section.class-desk",
    { "aria-label": "For the teacher" },
    join,
    el("div.class-settings", el("div.b-tools", "Send to all pages", sending), el("div.b-tools", limits, clear), status),
  );
}

/** Sharing one's own run, again at its end. */
function shareForm() {
  const own = room.kept.get("name") ?? "",
    name = field("class-name", { type: "text", maxlength: 24, autocomplete: "off", value: own }),
    status = el("p", { role: "status" }),
    submit = el("button.b-small", { type: "submit", id: "class-share" }, "Share my run");
  const withdraw = async () => {
    room.kept.set("run", null);
    status.textContent = (await act("withdraw")).error ?? "";
  };
  const remove = button("Take it off", withdraw, { id: "class-withdraw" });
  /** @param {string | null} run */
  const share = async (run) => {
    const answer = await act("share", run, name.value);
    if (answer.run) {
      room.kept.set("run", answer.run);
      room.kept.set("name", name.value);
    }
    status.textContent = answer.error ?? "";
  };
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    share(null).catch(console.warn);
  };
  // The run that was shared, and no other, is shared again when its status changes.
  on("status", () => {
    if (room.own !== null && room.kept.get("run")) share(room.kept.get("run")).catch(console.warn);
  });
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

/** @type {View} */
export function view(root, { options }) {
  const list = el("ul.class-board", { id: "class-runs" }),
    empty = el("p.b-empty", NO_RUN);
  fill(root, room.teacher && desk(options.lessons), shareForm(), empty, list);
  follow(() => {
    const before = /** @type {HTMLElement[]} */ ([...list.children]),
      cards = new Map(before.map((item) => [item.dataset.version, item])),
      runs = [...room.runs.values()].sort((one, other) => one.number - other.number);
    const wanted = runs.map((run) => cards.get(`${run.version}`) ?? card(run));
    wanted.forEach((item, k) => item.classList.toggle("is-own", runs[k].number === room.own));
    if (wanted.length !== before.length || wanted.some((item, k) => item !== before[k])) fill(list, wanted);
    empty.hidden = wanted.length > 0;
  });
  return function drawn() {};
}
