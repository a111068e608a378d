// The Class tab: how to join, what the teacher sets, sharing one's run, and the board of shared runs.

import { asksFirst, select, toggle } from "../controls.js";
import { button, disable, el, fill, svg } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { act, follow, room, teach } from "./state.js";

/** @typedef {import("./state.js").SharedRun} SharedRun */

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings, loss curve and verdict, while it " +
  "trains and after that. Your text and your model stay yours.";
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
function card({ number, version, name, title, status, step, steps, recipe, verdict, losses, curve: points }) {
  const shown = losses.map((value, k) => {
    const [key, objective] = [
      ["mlm", "MLM"],
      ["nsp", "NSP"],
    ][k];
    return value !== null && [el(`span.class-${key}`, `${objective} loss, last 20 steps: ${value.toFixed(3)}`), " "];
  });
  const remove = () =>
    asksFirst(
      "Remove",
      { id: `class-remove-${number}` },
      ["Take this run off the board? It is of ", el("bdi", { translate: "no" }, name), "."],
      () => teach("clear", number),
    );
  return el(
    "li.b-card.class-run",
    { "data-version": version, "data-number": number },
    el("h3", el("bdi", name)),
    curve(points),
    el("p", el("bdi", title), `: ${status}, step ${count(step)} of ${count(steps)}. `),
    el("p", shown),
    el("p.b-empty", `${recipe}.`),
    verdict && el("p.class-verdict", { dir: "auto" }, verdict),
    room.teacher && remove(),
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
    // As another page of the teacher may have set them.
    if (document.activeElement !== sharing) sharing.checked = room.sharing;
    if (room.limits && document.activeElement !== steps) steps.value = `${room.limits.steps}`;
    if (room.limits && document.activeElement !== parameters) parameters.value = `${room.limits.parameters}`;
  });
  const sending = [list, named("or a link", link), button("Send", send, { id: "class-send" })],
    limits = [named("Most steps of a run", steps), named("Most parameters", parameters), shared],
    ask = "Take all runs off the board? Only the person who shared a run can share it again.",
    clear = asksFirst("Clear the board", { id: "class-clear" }, ask, () => run("clear"));
  return el(
    "section.class-desk",
    { "aria-label": "For the teacher" },
    join,
    el("div.class-settings", el("div.b-tools", "Send to all pages", sending), el("div.b-tools", limits, clear), status),
  );
}

/** Sharing one's own run. */
function shareForm() {
  const own = room.kept.get("name") ?? "",
    name = field("class-name", { type: "text", maxlength: 24, autocomplete: "off", value: own }),
    status = el("p", { role: "status" }),
    submit = el("button.b-small", { type: "submit", id: "class-share" }, "Share my run");
  const withdraw = async () => {
    status.textContent = (await act("withdraw")).error ?? "";
  };
  const remove = button("Take it off", withdraw, { id: "class-withdraw" });
  const share = async () => {
    const { error, other } = await act("share", null, name.value);
    if (!error) room.kept.set("name", name.value);
    fill(status, error, other && ["Another person has this name, so your run has the name ", el("bdi", other), "."]);
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

/** @type {View} */
export function view(root, { options }) {
  const list = el("ul.class-board", { id: "class-runs" }),
    empty = el("p.b-empty", NO_RUN);
  fill(root, room.teacher && desk(options.lessons), shareForm(), empty, list);
  follow(() => {
    const before = /** @type {HTMLElement[]} */ ([...list.children]),
      cards = new Map(before.map((item) => [item.dataset.version, item])),
      runs = [...room.runs.values()].sort((one, other) => one.number - other.number);
    // A card that asks the teacher something stays as it is until that is answered.
    const asking = before.filter((item) => item.querySelector(":popover-open"));
    const wanted = runs.map(
      (run) =>
        cards.get(`${run.version}`) ?? asking.find(({ dataset }) => dataset.number === `${run.number}`) ?? card(run),
    );
    wanted.forEach((item, k) => item.classList.toggle("is-own", runs[k].number === room.own));
    if (wanted.length !== before.length || wanted.some((item, k) => item !== before[k])) fill(list, wanted);
    empty.hidden = wanted.length > 0;
  });
  return function drawn() {};
}
