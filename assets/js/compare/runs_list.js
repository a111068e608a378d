// The visitor's runs side by side: their last numbers, the runs chosen to be drawn over the curves, and the settings that
// differ between these.

import { saveMenu } from "../parts/downloads.js";
import { disable, el, note } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { on } from "../frame/page.js";
import { curves } from "../train/curves.js";
import { dot, hasEnded, runs, STATUS_NAMES } from "../train/runs.js";
import { asking } from "../views.js";

/** @param {number | null} value */
const loss = (value) => (value === null ? "–" : value.toFixed(3));
/** @param {number | null} value */
const accuracy = (value) => (value === null ? "–" : percent(value));
/** @type {[name: string, words: (value: number | null) => string][]} */
const COLUMNS = [
  ["MLM loss", loss],
  ["NSP loss", loss],
  ["Asked words right", accuracy],
  ["Pairs right", accuracy],
];

/** @type {View} */
export function view(root, { trigger, server, options }) {
  const head = el(
    "thead",
    {},
    el(
      "tr",
      {},
      ...["In the curves", "Run", "Seed", "Steps", ...COLUMNS.map(([name]) => name), "Again"].map((name, index) =>
        el(
          "th",
          { scope: "col", class: index > 1 && index < 8 ? "b-number" : null },
          index === 0 || index === 8 ? el("span", { class: "b-unseen" }, name) : name,
        ),
      ),
    ),
  );
  const body = el("tbody", {});
  const table = el("table", { class: "b-runs", id: "runs-table" }, head, body);
  const empty = el("p", { class: "b-empty" }, "Each run that you start is listed here, with its last numbers.");
  const hint = el("p", { class: "b-empty" }, options.hint);
  const said = el("div", { id: "runs-notes" });
  const differ = el("div", { id: "runs-differ" });
  const side = el("div", {});
  root.append(
    el("h2", {}, "Which of your runs learned more?"),
    empty,
    el("div", { class: "b-beside" }, el("div", {}, said, el("div", { class: "b-scroll" }, table), hint, differ), side),
  );
  const chart = curves(side, options);
  side.append(
    saveMenu({ id: "compared", what: "the compared curves", kinds: ["png", "svg"] }, (kind) =>
      chart.picture(kind, "Compared runs"),
    ),
  );
  side.hidden = table.hidden = hint.hidden = true;
  let rows = [];
  /** @type {string | null} */
  let before = null;

  function button(row, label, paused, title) {
    const item = el(
      "button",
      {
        class: "b-small-button",
        "aria-label": `${label}: run ${row.number}`,
        "data-control": `${label} ${row.number}`,
      },
      label,
    );
    const isBusy = rows.some((each) => !hasEnded(each.status));
    disable(
      item,
      isBusy ? "Stop the active run first" : !row.canRepeat && "The text of this run is no longer kept",
      title,
    );
    item.addEventListener("click", () => trigger("select", { run: row.run, paused }));
    return item;
  }

  function line(row) {
    const tick = el("input", {
      type: "checkbox",
      "aria-label": `Run ${row.number} in the curves`,
      "data-control": row.number,
    });
    tick.checked = row.isShown || runs.chosen.has(row.run);
    tick.disabled = row.isShown || !row.canRepeat;
    tick.addEventListener("change", () => {
      const chosen = new Set(runs.chosen);
      if (tick.checked) chosen.add(row.run);
      else chosen.delete(row.run);
      runs.choose(chosen);
    });
    const name = STATUS_NAMES[row.status].toLowerCase();
    const held = row.held || [];
    const item = el(
      "tr",
      { "data-run": row.run, "data-status": row.status },
      el("td", { class: "b-tick" }, tick),
      el(
        "td",
        { class: "b-run-name" },
        dot(row),
        el("div", {}, `${row.number} · ${row.title}`, el("small", { title: row.reason || null }, name)),
      ),
      el("td", { class: "b-number", "data-name": "Seed" }, row.seed),
      el(
        "td",
        { class: "b-number", "data-name": "Steps" },
        row.step === row.steps ? count(row.steps) : `${count(row.step)} of ${count(row.steps)}`,
      ),
      ...COLUMNS.map(([name, words], index) =>
        el(
          "td",
          { class: "b-number", "data-name": name },
          row.numbers ? words(row.numbers[index]) : "–",
          ...(row.held ? [el("small", {}, `${words(held[index])} held-out`)] : []),
        ),
      ),
      el(
        "td",
        { class: "b-again" },
        button(row, "Run again", false, "Same settings, text and seed"),
        button(row, "Reset", true, "Same settings, text and seed, paused at step 0"),
      ),
    );
    item.classList.toggle("is-shown", row.isShown);
    return item;
  }

  function difference({ runs: numbers, rows: settings, alike }) {
    const sides = numbers.map((number) => el("th", { scope: "col" }, `Run ${number}`));
    const lines = settings.map(([label, name, ...values]) =>
      el("tr", {}, el("th", { scope: "row", title: name }, label), ...values.map((value) => el("td", {}, value))),
    );
    const parts = [el("h3", {}, "What differs")];
    if (settings.length) {
      parts.push(
        el(
          "div",
          { class: "b-scroll" },
          el(
            "table",
            { class: "b-differ" },
            el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Setting"), ...sides)),
            el("tbody", {}, ...lines),
          ),
        ),
      );
    } else parts.push(el("p", {}, "Nothing: the same settings, text and seed."));
    if (alike !== null) {
      parts.push(
        el(
          "p",
          { class: "b-empty", id: "runs-alike" },
          alike
            ? "All of them began with the same weights, bit for bit."
            : "They did not all begin with the same weights.",
        ),
      );
    }
    return parts;
  }

  /** @type {Record<string, any>} */
  const fetched = {}; // curves, by run
  const compare = asking(differ, async () => {
    const ticked = rows.filter((row) => row.canRepeat && (row.isShown || runs.chosen.has(row.run)));
    const chosen = ticked.map((row) => row.run);
    for (const { run, status } of ticked) {
      if (fetched[run]?.status === status && hasEnded(status)) continue; // that of an active run grows
      fetched[run] = { ...(await server.curve(runs.visitor, run)), status };
    }
    chart.overlay(chosen.map((run) => fetched[run]).filter(({ error }) => !error));
    if (chosen.length < 2) {
      differ.replaceChildren();
      return;
    }
    const answer = await server.differing(runs.visitor, chosen);
    differ.replaceChildren(...(answer.error ? [note(answer.error, true)] : difference(answer)));
  });

  const show = () => {
    const focused = body.querySelector(":focus")?.getAttribute("data-control");
    body.replaceChildren(...rows.map(line));
    said.replaceChildren(...(rows[0]?.notes || []).map((text) => note(text)));
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(`[data-control="${focused}"]`))?.focus();
    side.hidden = table.hidden = hint.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
    compare();
  };

  const refresh = asking(root, async () => {
    if (!runs.visitor || !runs.shown) {
      rows = [];
      show();
      return;
    }
    const answer = await server.listing(runs.visitor);
    if (answer.error) return;
    rows = answer.map((row) => ({ ...row, isShown: row.run === runs.shown }));
    // The runs of an experiment are no longer beside a run that was started after it.
    const isLater = before && before !== runs.shown && rows.at(-1)?.isShown && !rows.at(-1).variant;
    before = runs.shown;
    const there = rows.filter((row) => runs.chosen.has(row.run) && !(isLater && row.variant)).map((row) => row.run);
    if (there.length < runs.chosen.size)
      runs.choose(there); // the server dropped some; this shows the list too
    else show();
  });

  on("runs", () => refresh());
  on("chosen", show);
  refresh();
  return function draw() {};
}
