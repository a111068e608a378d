// The nearest sentences of the text for each sentence of the person.

import { row, scrolling, table } from "../controls.js";
import { bar, el, fill, note } from "../parts/elements.js";

/** @typedef {{rows: [sentence: string, nearest: [text: string, cosine: number][]][], text?: string, unnamed?: string}} Nearest */

/** @type {View} */
export function view(root) {
  return function draw(/** @type {Nearest | null} */ value) {
    if (!value?.rows?.length) return fill(root, value?.unnamed && note(value.unnamed, true));
    const lines = value.rows.flatMap(([sentence, nearest]) => [
      row([el("th", { colspan: 3, scope: "rowgroup" }, el("b", el("bdi", sentence)))]),
      ...nearest.map(([text, cosine]) =>
        row([el("bdi", text), bar(cosine, "mlm"), el("td.b-number", cosine.toFixed(3))]),
      ),
    ]);
    const name = "The nearest sentences of the text",
      head = ["Nearest sentence of the text", "", "Similarity"];
    fill(root, el("h3", name), scrolling(name, table(head, lines, { numbers: 2 })), el("p.b-empty", value.text));
  };
}
