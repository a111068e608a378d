// The nearest sentences of the text for each sentence of the person.

import { scrolling, table } from "../controls.js";
import { bar, el, fill, note } from "../parts/elements.js";

/** @typedef {{rows: [sentence: string, nearest: [text: string, cosine: number][]][], text?: string, unnamed?: string}} Nearest */

/** @type {View} */
export function view(root) {
  return function draw(/** @type {Nearest | null} */ value) {
    if (!value?.rows?.length) return fill(root, value?.unnamed && note(value.unnamed, true));
    const lines = value.rows.flatMap(([sentence, nearest]) =>
      nearest.map(([text, cosine], k) => [
        k ? el("td") : el("bdi", sentence),
        el("bdi", text),
        bar(cosine, "mlm"),
        el("td.b-number", cosine.toFixed(3)),
      ]),
    );
    const name = "The nearest sentences of the text",
      head = ["Sentence", "Nearest sentence of the text", "", "Similarity"];
    fill(root, el("h3", name), scrolling(name, table(head, lines, { numbers: 3 })), el("p.b-empty", value.text));
  };
}
