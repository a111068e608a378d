// Files of examples, which part each is, and what each column of the training file is: as it was found, until a person
// says otherwise.

import { keepingFocus, scrolling, select, table, toggle } from "../controls.js";
import { el, fill, own } from "../parts/elements.js";

/** @typedef {{roles: string[] | null, header: boolean | null, separator: string, files: Record<string, string>}} Chosen null: as it is found */
/** @typedef {{files: [name: string, path: string, part: string][], parts: [part: string, title: string][], chosen: Chosen | null}} Files */
/** @typedef {Files & {rows: string[][], kinds: [role: string, title: string][], roles: string[], header: boolean, between: string}} Found without rows where a task's files have columns of their own; see columns_value in balcony/finetune/columns.py */

/** The files, each with a list of its part. @param {Files} value @param {(part: Partial<Chosen>) => void} choose */
function fileTable({ files, parts, chosen }, choose) {
  const rows = files.map(([file, path, part]) => {
    const change = (/** @type {string} */ other) => choose({ files: { ...chosen?.files, [path]: other } }),
      list = select(`Part of ${own(file)}`, parts, change);
    list.value = part; // none of them for a file too many
    return [el("bdi", file), list];
  });
  return rows.length > 0 && table(["File", "Part"], rows, { numbers: 2 });
}

/** @type {View} */
export function view(root, { setValue, trigger }) {
  /** @type {Found} */
  let found;

  /** @param {Partial<Chosen>} part that a person has changed */
  function choose(part) {
    found = { ...found, chosen: { roles: null, header: null, separator: "", files: {}, ...found.chosen, ...part } };
    setValue(found);
    trigger("input");
  }

  /** A list above a column. @param {string} role @param {number} column */
  function kindOf(role, column) {
    const change = (/** @type {string} */ other) =>
        choose({ roles: found.roles.with(column, other), header: found.header }),
      list = select(`Column ${column + 1}`, found.kinds, change);
    list.value = role;
    return el("th", { scope: "col" }, list);
  }

  const cell = (/** @type {string} */ text) => el("td", el("bdi", { title: text }, text)),
    tick = (/** @type {boolean} */ header) => choose({ roles: found.roles, header }),
    header = toggle("The first line is a header", tick, { id: "task-header" }),
    onchange = () => choose({ roles: null, header: null, separator: box.value }),
    box = el("input", { type: "text", "aria-describedby": "task-between", autocomplete: "off", onchange }),
    info = "Empty: a tab, _!_, a comma or a semicolon, as found. Or type it; “tab” for a tab.",
    name = el("div.b-control-name", "The first rows, and what each column is"),
    between = [el("label.b-control-name", "Between columns", box), el("p.b-empty", { id: "task-between" }, info)],
    shown = el("div"),
    files = el("div", { id: "task-parts" }),
    columns = el("div", name, header, shown, between);
  return function draw(/** @type {Found | null} */ value) {
    root.hidden = !value;
    if (!value) return fill(root);
    found = value;
    keepingFocus(files, () => fill(files, fileTable(value, choose)));
    if (!root.contains(files)) fill(root, files, columns);
    columns.hidden = !value.rows;
    if (!value.rows) return;
    /** @type {HTMLInputElement} */ (header.firstChild).checked = value.header;
    box.value = value.chosen?.separator ?? "";
    box.placeholder = value.between; // as it was found
    const rows = value.rows.map((fields) => el("tr", fields.map(cell)));
    if (value.header) rows[0].classList.add("b-header");
    shown.hidden = header.hidden = !value.roles.length;
    keepingFocus(shown, () => fill(shown, scrolling("The first rows", table(value.roles.map(kindOf), rows))));
  };
}
