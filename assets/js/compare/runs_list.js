// The visitor's runs side by side: their last numbers, the runs chosen to be drawn over the curves, and the settings that
// differ between these.

import { el, note } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { latest, on } from "../parts/page.js";
import { hasEnded, runs, STATUS_NAMES } from "../train/runs.js";

/** @param {number | null} value */
const loss = (value) => (value === null ? "–" : value.toFixed(3));
/** @param {number | null} value */
const accuracy = (value) => (value === null ? "–" : percent(value));
/** @type {[name: string, words: (value: number | null) => string][]} */
const COLUMNS = [["MLM loss", loss], ["NSP loss", loss], ["Asked words right", accuracy], ["Pairs right", accuracy]];

/** A dot in a run's colour; that of the shown run has the two colours of the curves. */
const dot = (row) => {
  const swatch = el("span", { class: row.isShown ? "balcony-dot is-shown" : "balcony-dot", "aria-hidden": "true" });
  swatch.style.setProperty("--dot", row.colour);
  return swatch;
};

/** @type {View} */
export function runsList(root, { trigger, server }) {
  const head = el("thead", {}, el("tr", {}, ...["In the curves", "Run", "Seed", "Steps", ...COLUMNS.map(([name]) => name), "Again"].map(
    (name, index) => el("th", { scope: "col", class: index > 1 && index < 8 ? "balcony-number" : null },
      index === 0 || index === 8 ? el("span", { class: "balcony-unseen" }, name) : name))));
  const body = el("tbody", {});
  const table = el("table", { class: "balcony-runs", id: "runs-table" }, head, body);
  const empty = el("p", { class: "balcony-empty" }, "Each run that you start is listed here, with its last numbers.");
  const hint = el("p", { class: "balcony-empty" },
    "Tick runs to draw them over the curves and to compare their settings. The numbers are means over the last 20 steps. " +
    "Run again starts a run with the same settings, text and seed; Reset does the same and pauses at step 0. Both begin with " +
    "the same weights, bit for bit.");
  const differ = el("div", { id: "runs-differ" });
  root.append(empty, el("div", { class: "balcony-scroll" }, table), hint, differ);
  table.hidden = hint.hidden = true;
  let rows = [];

  function button(row, label, paused, title) {
    const item = el("button", { type: "button", class: "balcony-small-button", title, "aria-label": `${label}: run ${row.number}` }, label);
    const isBusy = rows.some((each) => !hasEnded(each.status));
    item.disabled = !row.canRepeat || isBusy;
    if (isBusy) item.title = "Stop the active run first";
    item.addEventListener("click", () => trigger("select", { run: row.run, paused }));
    return item;
  }

  function line(row) {
    const tick = el("input", { type: "checkbox", "aria-label": `Run ${row.number} in the curves` });
    tick.checked = row.isShown || runs.chosen.has(row.run);
    tick.disabled = row.isShown || !row.canRepeat;
    tick.addEventListener("change", () => {
      const chosen = new Set(runs.chosen);
      if (tick.checked) chosen.add(row.run); else chosen.delete(row.run);
      runs.choose(chosen);
    });
    const name = STATUS_NAMES[row.status].toLowerCase();
    const detail = row.variant ? `${row.title} · ${name}` : name;
    const held = row.held || [];
    const item = el("tr", { "data-run": row.run, "data-status": row.status },
      el("td", { class: "balcony-tick" }, tick),
      el("td", { class: "balcony-run-name" }, dot(row), el("div", {}, `${row.number} · ${row.variant || row.title}`, el("small", { title: row.reason || null }, detail))),
      el("td", { class: "balcony-number", "data-name": "Seed" }, row.seed),
      el("td", { class: "balcony-number", "data-name": "Steps" }, row.step === row.steps ? count(row.steps) : `${count(row.step)} of ${count(row.steps)}`),
      ...COLUMNS.map(([name, words], index) => el("td", { class: "balcony-number", "data-name": name },
        row.numbers ? words(row.numbers[index]) : "–",
        ...(row.held ? [el("small", {}, `${words(held[index])} held-out`)] : []))),
      el("td", { class: "balcony-again" },
        button(row, "Run again", false, "Same settings, text and seed"),
        button(row, "Reset", true, "Same settings, text and seed, paused at step 0")));
    item.classList.toggle("is-shown", row.isShown);
    return item;
  }

  function difference({ runs: numbers, rows: settings, alike }) {
    const sides = numbers.map((number) => el("th", { scope: "col" }, `Run ${number}`));
    const lines = settings.map(([label, name, ...values]) => el("tr", {},
      el("th", { scope: "row", title: name }, label), ...values.map((value) => el("td", {}, el("bdi", {}, value)))));
    const parts = [el("h3", {}, "What differs")];
    if (settings.length) {
      parts.push(el("div", { class: "balcony-scroll" }, el("table", { class: "balcony-differ" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Setting"), ...sides)), el("tbody", {}, ...lines))));
    } else parts.push(el("p", {}, "Nothing: the same settings, text and seed."));
    if (alike !== null) {
      parts.push(el("p", { class: "balcony-empty", id: "runs-alike" },
        alike ? "All of them began with the same weights, bit for bit." : "They did not all begin with the same weights."));
    }
    return parts;
  }

  const compare = latest(async () => {
    const chosen = rows.filter((row) => row.canRepeat && (row.isShown || runs.chosen.has(row.run))).map((row) => row.run);
    if (chosen.length < 2) { differ.replaceChildren(); return; }
    const answer = await server.differing(runs.visitor, chosen);
    differ.replaceChildren(...(answer.error ? [note(answer.error, true)] : difference(answer)));
  });

  const show = () => {
    const focused = body.querySelector(":focus")?.getAttribute("aria-label");
    body.replaceChildren(...rows.map(line));
    if (focused) /** @type {HTMLElement | null} */ (body.querySelector(`[aria-label="${CSS.escape(focused)}"]`))?.focus();
    table.hidden = hint.hidden = rows.length === 0;
    empty.hidden = rows.length > 0;
    compare().catch(console.warn);
  };

  const refresh = latest(async () => {
    if (!runs.visitor || !runs.shown) { rows = []; show(); return; }
    const answer = await server.listing(runs.visitor);
    if (answer.error) return;
    rows = answer.map((row) => ({ ...row, isShown: row.run === runs.shown }));
    const there = rows.map((row) => row.run).filter((id) => runs.chosen.has(id));
    if (there.length < runs.chosen.size) runs.choose(there); // the server dropped some; this shows the list too
    else show();
  });

  on("runs", () => refresh().catch(console.warn));
  on("chosen", show);
  refresh().catch(console.warn);
  return function draw() {};
}
