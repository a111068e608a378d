// The Class tab: how to join, what the teacher sets, sharing one's run, and the board of shared runs.

import { disable, el, svg } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { on } from "../frame/page.js";
import { act, follow, room, teach } from "./state.js";
import { button } from "./bar.js";

const PRIVACY =
  "Everybody in the class sees this name, and of your newest run its title, settings, loss curve and verdict. " +
  "Your text and your model stay yours. The board stays in memory until it is cleared or the program ends.";

/** The losses as two lines. @param {import("./state.js").SharedRun["curve"]} points */
function curve(points) {
  const last = points.at(-1)?.[0] ?? 1,
    top = Math.max(1e-9, ...points.flatMap(([, ...losses]) => losses.map((loss) => loss ?? 0)));
  const line = (/** @type {1 | 2} */ k) =>
    points
      .flatMap((point) =>
        point[k] === null
          ? []
          : [`${((100 * point[0]) / last).toFixed(1)},${(39 - (38 * (point[k] ?? 0)) / top).toFixed(1)}`],
      )
      .join(" ");
  return svg(
    "svg",
    { class: "class-curve", viewBox: "0 0 100 40", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("polyline", { points: line(2), class: "class-nsp" }),
    svg("polyline", { points: line(1), class: "class-mlm" }),
  );
}

/** @param {import("./state.js").SharedRun} run */
function card(run) {
  const [, mlm, nsp] = run.curve.at(-1) ?? [0, null, null];
  /** @param {string} key @param {string} name @param {number | null} value */
  const loss = (key, name, value) =>
    value === null ? [] : [el("span", { class: `class-${key}` }, `${name} ${value.toFixed(2)}`), " "];
  const item = el(
    "li",
    { class: "b-card class-run" },
    el("h3", {}, el("bdi", {}, run.name)),
    curve(run.curve),
    el(
      "p",
      {},
      el("bdi", {}, run.title),
      `: ${run.status}, step ${count(run.step)}. `,
      ...loss("mlm", "MLM loss", mlm),
      ...loss("nsp", "NSP loss", nsp),
    ),
    el("p", { class: "b-empty" }, `${run.recipe}.`),
    ...(run.verdict ? [el("p", { class: "class-verdict", dir: "auto" }, run.verdict)] : []),
  );
  item.dataset.version = `${run.version}`;
  if (room.teacher) item.append(button(`class-remove-${run.number}`, "Remove", () => teach("clear", run.number)));
  return item;
}

/** @param {string} label @param {string} id @param {Record<string, any>} attributes */
function field(label, id, attributes) {
  const input = el("input", { id, ...attributes });
  const isBox = attributes.type === "checkbox";
  return {
    input,
    line: isBox
      ? el("label", { class: "b-toggle" }, input, label)
      : el("label", { class: "class-field" }, label, input),
  };
}

/** The teacher's part. @param {[name: string, title: string][]} lessons */
function desk(lessons) {
  const join = el("div", { class: "class-join" }),
    status = el("p", { role: "status" });
  /** @param {string} action @param {any[]} values */
  const run = async (action, ...values) => {
    status.textContent = (await teach(action, ...values)).error ?? "Done.";
  };
  const list = el(
    "select",
    { id: "class-lesson", "aria-label": "Lesson" },
    ...lessons.map(([name, title]) => el("option", { value: name }, title)),
  );
  const link = field("or a link", "class-link", { type: "text", placeholder: "copied with Copy link" });
  const steps = field("Most steps of a run", "class-steps", { type: "number", min: 1 });
  const parameters = field("Most parameters", "class-parameters", { type: "number", min: 1 });
  const sharing = field("Runs can be shared", "class-sharing", { type: "checkbox" });
  const limit = () => run("limit", steps.input.valueAsNumber, parameters.input.valueAsNumber, sharing.input.checked);
  for (const { input } of [steps, parameters, sharing]) input.addEventListener("change", limit);
  teach("enter").then(({ error, address, size, path, steps: most, parameters: largest }) => {
    status.textContent = error ?? "";
    if (error) return;
    [steps.input.value, parameters.input.value] = [`${most}`, `${largest}`];
    join.append(
      svg(
        "svg",
        { class: "class-code", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `QR code of ${address}` },
        svg("rect", { width: size, height: size, fill: "#fff" }),
        svg("path", { d: path, fill: "#000" }),
      ),
      el(
        "div",
        {},
        el("h3", {}, "Join at"),
        el("p", { class: "class-address" }, address),
        el("p", { class: "b-empty" }, "Others in the same network open this address or scan the code."),
      ),
    );
  });
  follow(() => {
    if (document.activeElement !== sharing.input) sharing.input.checked = room.sharing;
  });
  return el(
    "section",
    { class: "class-desk", "aria-label": "For the teacher" },
    join,
    el(
      "div",
      { class: "class-settings" },
      el(
        "div",
        { class: "b-tools" },
        "Send to all pages",
        list,
        link.line,
        button("class-send", "Send", () => {
          const own = link.input.value.trim();
          const title = lessons.find(([name]) => name === list.value)?.[1] ?? ""; // in English; each page translates it
          return own ? run("send", "", own) : run("send", title, `#lesson=${list.value}`);
        }),
      ),
      el(
        "div",
        { class: "b-tools" },
        steps.line,
        parameters.line,
        sharing.line,
        button("class-clear", "Clear the board", () => run("clear")),
      ),
      status,
    ),
  );
}

/** Sharing one's own run, again at its end. */
function shareForm() {
  const name = field("Your name on the board", "class-name", {
    type: "text",
    maxlength: 24,
    autocomplete: "off",
    value: room.kept.get("name") ?? "",
  });
  const status = el("p", { role: "status" });
  const submit = el("button", { type: "submit", class: "b-small-button", id: "class-share" }, "Share my run");
  const remove = button("class-withdraw", "Take it off", async () => {
    room.kept.set("run", null);
    status.textContent = (await act("withdraw")).error ?? "";
  });
  const form = el(
    "form",
    { class: "class-share" },
    el("div", { class: "b-tools" }, name.line, submit, remove),
    el("p", { class: "b-empty" }, PRIVACY),
    status,
  );
  /** @param {string | null} run */
  const share = async (run) => {
    const answer = await act("share", run, name.input.value);
    if (answer.run) {
      room.kept.set("run", answer.run);
      room.kept.set("name", name.input.value);
    }
    status.textContent = answer.error ?? "";
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    share(null).catch(console.warn);
  });
  // The run that was shared, and no other, is shared again when its status changes.
  on("status", () => {
    if (room.own !== null && room.kept.get("run")) share(room.kept.get("run")).catch(console.warn);
  });
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
  const list = el("ul", { class: "class-board", id: "class-runs" });
  const empty = el(
    "p",
    { class: "b-empty" },
    "No run is on the board yet. Train one, type a name above, and share it.",
  );
  root.append(...(room.teacher ? [desk(options.lessons)] : []), shareForm(), empty, list);
  follow(() => {
    const cards = new Map([...list.children].map((item) => [/** @type {HTMLElement} */ (item).dataset.version, item]));
    const wanted = [...room.runs.values()]
      .sort((one, other) => one.number - other.number)
      .map((run) => {
        const item = cards.get(`${run.version}`) ?? card(run);
        item.classList.toggle("is-own", run.number === room.own);
        return item;
      });
    if (wanted.length !== list.children.length || wanted.some((item, k) => item !== list.children[k]))
      list.replaceChildren(...wanted);
    empty.hidden = wanted.length > 0;
  });
  return function drawn() {};
}
