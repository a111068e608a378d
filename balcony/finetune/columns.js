// Files of examples, which part each is, and what each column of the training file is: as it was found, until a person
// says otherwise.

import { keepingFocus, scrolling, select, table, toggle } from "../controls.js";
import { KINDS } from "../parts/control.js";
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

  /** A list above a column. @param {number} column */
  function kindOf(column) {
    const { kinds, roles } = found,
      changed = () => roles.map((role, k) => (k === column ? kinds[list.selectedIndex][0] : role)),
      onchange = () => choose({ roles: changed(), header: found.header }),
      items = kinds.map(([, title]) => el("option", title)),
      list = el("select", { "aria-label": `Column ${column + 1}`, onchange }, items);
    list.selectedIndex = kinds.findIndex(([role]) => role === roles[column]);
    return el("th", { scope: "col" }, list);
  }

  const cell = (/** @type {string} */ text) => el("td", el("bdi", { title: text }, text)),
    header = toggle("The first line is a header", (header) => choose({ roles: found.roles, header }), {
      id: "task-header",
    }),
    between = KINDS.text({ label: "Between columns" }, "task-between", (separator) =>
      choose({ roles: null, header: null, separator }),
    ),
    box = /** @type {HTMLInputElement} */ (/** @type {HTMLElement} */ (between.parts[0]).lastElementChild),
    info = el(
      "p.b-empty",
      { id: "task-between" },
      "Empty: a tab, _!_, a comma or a semicolon, as found. Or type it; “tab” for a tab.",
    ),
    name = el("div.b-control-name", "The first rows, and what each column is"),
    shown = el("div"),
    files = el("div", { id: "task-parts" }),
    columns = el("div", name, header, shown, between.parts, info);
  return function draw(/** @type {Found | null} */ value) {
    root.hidden = !value;
    if (!value) return fill(root);
    found = value;
    keepingFocus(files, () => fill(files, fileTable(value, choose)));
    if (!root.contains(files)) fill(root, files, columns);
    columns.hidden = !value.rows;
    if (!value.rows) return;
    /** @type {HTMLInputElement} */ (header.firstChild).checked = value.header;
    between.show(value.chosen?.separator ?? "", {});
    box.placeholder = value.between; // as it was found
    const rows = value.rows.map((fields) => el("tr", fields.map(cell)));
    if (value.header) rows[0].classList.add("b-header");
    shown.hidden = header.hidden = !value.roles.length;
    fill(
      shown,
      scrolling(
        "The first rows",
        table(
          value.roles.map((_, column) => kindOf(column)),
          rows,
        ),
      ),
    );
  };
}
