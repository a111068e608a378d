// The first rows of a file of examples, and what each of its columns is: as it was found, until a person says otherwise.

import { scrolling, table, toggle } from "../controls.js";
import { KINDS } from "../parts/control.js";
import { el, fill } from "../parts/elements.js";

/** @typedef {{roles: string[] | null, header: boolean | null, separator: string}} Chosen null: as it is found */
/** @typedef {{of: string, rows: string[][], kinds: [role: string, title: string][], roles: string[], header: boolean, chosen: Chosen | null}} Found see columns_value in balcony/finetune/columns.py */

/** @type {View} */
export function view(root, { setValue, trigger }) {
  /** @type {Found} */
  let found;

  /** @param {Partial<Chosen>} part that a person has changed */
  function choose(part) {
    const { roles, header, chosen } = found;
    found = { ...found, chosen: { roles, header, separator: chosen?.separator ?? "", ...part } };
    setValue(found);
    trigger("input");
  }

  /** A list above a column. @param {number} column */
  function kindOf(column) {
    const { kinds, roles } = found,
      onchange = () => choose({ roles: roles.map((role, k) => (k === column ? kinds[list.selectedIndex][0] : role)) }),
      items = kinds.map(([, title]) => el("option", title)),
      list = el("select", { "aria-label": `Column ${column + 1}`, onchange }, items);
    list.selectedIndex = kinds.findIndex(([role]) => role === roles[column]);
    return el("th", { scope: "col" }, list);
  }

  const cell = (/** @type {string} */ text) => el("td", el("bdi", { title: text }, text)),
    header = toggle("The first line is a header", (isHeader) => choose({ header: isHeader }), { id: "task-header" }),
    between = KINDS.text({ label: "Between columns" }, "task-between", (separator) =>
      choose({ roles: null, header: null, separator }),
    ),
    info = el(
      "p.b-empty",
      { id: "task-between" },
      "Empty: a tab, _!_, a comma or a semicolon, as found. Or type it; “tab” for a tab.",
    ),
    name = el("div.b-control-name", "The first rows, and what each column is"),
    shown = el("div");
  return function draw(/** @type {Found | null} */ value) {
    root.hidden = !value?.rows;
    if (!value?.rows) return fill(root);
    found = value;
    /** @type {HTMLInputElement} */ (header.firstChild).checked = value.header;
    between.show(value.chosen?.separator ?? "", {});
    const rows = value.rows.map((fields) => el("tr", fields.map(cell)));
    if (value.header) rows[0].classList.add("b-header");
    shown.hidden = header.hidden = !value.roles.length;
    const kinds = value.roles.map((_, column) => kindOf(column));
    fill(shown, scrolling("The first rows", table(kinds, rows)));
    if (!root.contains(shown)) fill(root, name, shown, header, between.parts, info);
  };
}
