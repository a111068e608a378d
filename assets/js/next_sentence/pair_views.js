// Sentences in pairs: how the words of one look at those of the other, and every sentence against every other.

import { el, note } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { follow } from "../parts/page.js";

const ORDERS = { text: "reading order", next: "P of the true next sentence", right: "share judged right" };
const ACROSS_HINT = "A row is a word of the first sentence; point at a cell to read how much it takes from a word of the second.";
const MATRIX_HINT = "Rows are first sentences, columns second ones; point at a cell to read it, press it to look at the pair above.";

/** The order of the rows is that of all matrices on the page, so that two models stand side by side alike. */
const shared = new EventTarget();
shared.order = "text";

/** The option of a head, [layer, head]; null is the mean of all. */
const keyOf = (head) => (head ? head.join(".") : "mean");

const empty = (root, value) => root.replaceChildren(...(value && value.error ? [note(value.error, true)] : []));

export function pairAcross(root, { choose, options }) {
  const heads = el("select", {}), summary = el("p", { class: "balcony-empty" });
  const readout = el("p", { class: "balcony-readout", "aria-live": "polite" });
  const tools = el("div", { class: "balcony-tools", "data-no-picture": "" }, el("label", {}, "Attention of ", heads));
  const title = el("h3", {}, "From the first sentence to the second"), map = heatMap(readout);
  let value = null, width = 0;
  heads.addEventListener("change", () => choose({ head: value.choices[heads.selectedIndex][0] }));
  new ResizeObserver(() => { if (value && root.clientWidth && root.clientWidth !== width) show(); }).observe(root);

  function show() {
    width = root.clientWidth;
    const { rows, columns, weights } = value;
    map.draw({
      rows, columns, values: weights.flat(), colour: options.colour, room: width || 500, largest: 44, hint: ACROSS_HINT,
      alpha: (weight) => Math.max(0.03, Math.sqrt(weight)),
      label: "Attention of the first sentence to the second; the arrow keys go from cell to cell",
      describe: (i, j) => [el("bdi", {}, rows[i]), " → ", el("bdi", {}, columns[j]), `: ${weights[i][j].toFixed(3)}`],
    });
  }

  return function draw(next) {
    value = next && next.rows ? next : null;
    if (!value) { empty(root, next); return; }
    const now = JSON.stringify(value.choices);
    if (heads.dataset.choices !== now) {
      heads.replaceChildren(...value.choices.map(([head, text]) => el("option", { value: keyOf(head) }, text)));
      heads.dataset.choices = now;
    }
    heads.value = keyOf(value.head);
    summary.textContent = value.note;
    if (!tools.isConnected) root.replaceChildren(title, tools, map.element, readout, summary);
    show();
  };
}

export function pairMatrix(root, { trigger, choose, options }) {
  follow(root, () => { if (!value || !value.beside) trigger("submit"); }, 400);
  const title = el("h3", { dir: "auto" }), notes = el("div", { class: "balcony-notes" });
  const order = el("select", {}, ...Object.entries(ORDERS).map(([key, text]) => el("option", { value: key }, text)));
  const from = el("input", { type: "range", min: "0", step: "1", "aria-label": "Where the window of sentences begins" });
  const shown = el("output", {}), moving = el("label", {}, from, " ", shown);
  const tools = el("div", { class: "balcony-tools", "data-no-picture": "" }, el("label", {}, "Rows by ", order), moving);
  const readout = el("p", { class: "balcony-readout", "aria-live": "polite" });
  const legend = el("p", { class: "balcony-empty" });
  const map = heatMap(readout), picture = el("div", {}, tools, map.element, readout);
  const panel = el("div", { class: "balcony-matrix" }, title, picture, el("div", {}, notes, legend));
  let value = null, width = 0;
  order.addEventListener("change", () => {
    shared.order = order.value;
    shared.dispatchEvent(new Event("order"));
  });
  shared.addEventListener("order", () => { if (value) show(); });
  from.addEventListener("input", tellWindow);
  from.addEventListener("change", () => choose({ start: Number(from.value) }));
  new ResizeObserver(() => { if (value && picture.clientWidth && picture.clientWidth !== width) show(); }).observe(picture);

  function tellWindow() {
    const first = Number(from.value);
    shown.textContent = `sentences ${first + 1} to ${Math.min(value.total, first + value.size)} of ${value.total.toLocaleString("en")}`;
  }

  /** What the rows are ordered by, largest first; a row without it comes last. */
  function worth(i) {
    const cells = value.sentences.map((_, j) => [value.probabilities[i][j], value.pair_labels[i][j]]).filter(([likely]) => likely !== null);
    if (shared.order === "next") return Math.max(-1, ...cells.filter(([, actual]) => actual === 1).map(([likely]) => likely));
    const asked = cells.filter(([, actual]) => actual >= 0);
    return asked.length ? asked.filter(([likely, actual]) => (likely >= 0.5) === (actual === 1)).length / asked.length : -1;
  }

  function rowsInOrder() {
    const rows = value.sentences.map((_, i) => i);
    return shared.order === "text" ? rows : rows.sort((a, b) => worth(b) - worth(a));
  }

  function show() {
    order.value = shared.order;
    width = picture.clientWidth;
    const { sentences, numbers, probabilities, pair_labels: actual, labels } = value, rows = rowsInOrder();
    const isWrong = (i, j) => probabilities[i][j] !== null && actual[i][j] >= 0 && (probabilities[i][j] >= 0.5) !== (actual[i][j] === 1);

    function describe(row, j) {
      const i = rows[row], likely = probabilities[i][j];
      const fact = { 1: `${labels[0]} in the text`, 0: `${labels[1]} in the text` }[actual[i][j]];
      return [`${numbers[i]} `, el("bdi", {}, sentences[i]), ` → ${numbers[j]} `, el("bdi", {}, sentences[j]),
        likely === null ? ": longer than the model reads" : `: P(${labels[0]}) ${percent(likely)}`,
        ...(likely !== null && fact ? [`; ${fact}, judged ${isWrong(i, j) ? "wrong" : "right"}`] : [])];
    }

    map.draw({
      rows: rows.map((i) => `${numbers[i]} ${sentences[i]}`), columns: numbers.map(String),
      values: rows.flatMap((i) => probabilities[i]), colour: options.colour, room: width || 500, largest: 44, letters: width > 520 ? 36 : 14, hint: MATRIX_HINT, describe,
      alpha: (likely) => 0.03 + 0.97 * likely,
      label: `${title.textContent}: which follows which; the arrow keys go from cell to cell, Enter looks at the pair`,
      outlined: (row, j) => actual[rows[row]][j] === 1, crossed: (row, j) => isWrong(rows[row], j),
      press: (row, j) => trigger("select", { first: sentences[rows[row]], second: sentences[j] }),
    });
  }

  return function draw(next) {
    value = next && next.sentences ? next : null;
    if (!value) { empty(root, next); return; }
    title.textContent = value.caption;
    notes.replaceChildren(...value.notes.map((sentence) => el("p", {}, sentence)));
    legend.textContent = `The fuller the colour, the likelier ${value.labels[0]}. Outlined: ${value.labels[0]} in the text. Crossed: judged wrong.`;
    from.max = Math.max(0, value.total - value.size);
    from.value = value.start;
    moving.hidden = value.total <= value.size || Boolean(value.beside);
    tellWindow();
    if (!panel.isConnected) root.replaceChildren(panel);
    show();
  };
}
