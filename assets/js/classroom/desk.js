// The teacher's part of the Class tab: how to join, what is sent and given to all pages, and the limits of runs.

import { select, toggle } from "../controls.js";
import { button, el, fill, svg } from "../parts/elements.js";
import { follow, room, teach } from "./state.js";

/** What each page can be given: its kind, its name, and how to type it. @type {[kind: string, name: string, how: string, typed: string][]} */
const GIFTS = [
  ["seed", "Seeds", "With none typed, the seeds are 1, 2, 3 and so on.", ""],
  ["rate", "Learning rates", "With more pages than rates, they begin again.", "0.03, 0.01, 0.003, 0.001, 0.0003"],
  [
    "text",
    "Texts",
    "A line with --- stands between two texts. With none typed, everybody uses a text of their own.",
    "",
  ],
];

/** @param {string} name @param {HTMLElement} input */
export const named = (name, input) => el("label.class-field", name, input);

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

/** Something different for each page. @param {(action: string, ...values: any[]) => void} run */
function giving(run) {
  const typed = el("textarea", { id: "class-values", rows: 1 }),
    how = el("span.b-empty");
  const choose = (/** @type {string} */ kind) => {
    const [, , hint, first] = GIFTS.find(([each]) => each === kind) ?? GIFTS[0];
    typed.value = first;
    typed.rows = kind === "text" ? 4 : 1;
    how.textContent = hint;
  };
  const kinds = select(
    "Kind",
    GIFTS.map(([kind, name]) => [kind, name]),
    choose,
    { id: "class-kind" },
  );
  choose("seed");
  const give = button("Give one to each page", () => run("give", kinds.value, typed.value), { id: "class-give" });
  return [el("div.b-tools", "Something different for each page", kinds, named("Values", typed), give), how];
}

/** @param {[name: string, title: string][]} lessons */
export function desk(lessons) {
  const join = el("div.class-join"),
    status = el("p", { role: "status" }),
    list = select("Lesson", lessons, () => {}, { id: "class-lesson" }),
    link = el("input", { id: "class-link", type: "text", placeholder: "copied with Copy link" });
  const run = async (/** @type {string} */ action, /** @type {any[]} */ ...values) => {
    status.textContent = (await teach(action, ...values)).error ?? "Done.";
  };
  const limit = () => run("limit", steps.valueAsNumber, parameters.valueAsNumber, sharing.checked),
    steps = el("input", { id: "class-steps", type: "number", min: 1, onchange: limit }),
    parameters = el("input", { id: "class-parameters", type: "number", min: 1, onchange: limit }),
    shared = toggle("Runs can be shared", limit, { id: "class-sharing" }),
    sharing = /** @type {HTMLInputElement} */ (shared.firstChild);
  const send = () => {
    const own = link.value.trim();
    const title = lessons.find(([name]) => name === list.value)?.[1] ?? ""; // in English; each page translates it
    return own ? run("send", "", own) : run("send", title, `#lesson=${list.value}`);
  };
  teach("enter").then(({ error, problem, address, size, path, steps: most, parameters: largest }) => {
    status.textContent = error ?? problem;
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
    limits = [named("Most steps of a run", steps), named("Most parameters", parameters), shared];
  return el(
    "section.class-desk",
    { "aria-label": "For the teacher" },
    join,
    el(
      "div.class-settings",
      el("div.b-tools", "Send to all pages", sending),
      giving(run),
      el("div.b-tools", limits),
      status,
    ),
  );
}
