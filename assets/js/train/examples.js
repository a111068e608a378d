// Texts to choose by one press, for whoever has none at hand: a line for each language.

import { button, el, roam } from "../parts/elements.js";

/** @typedef {[language: string, texts: [name: string, kind: string][]]} Line */

/** @type {View} */
export function view(root, { options, trigger }) {
  const line = (/** @type {Line} */ [language, texts], /** @type {number} */ k) =>
    el(
      "div.b-tools",
      { role: "group", "aria-labelledby": `examples-${k}` },
      el("span.b-examples-language", { id: `examples-${k}`, translate: "no" }, language),
      texts.map(([name, kind]) => button(kind, () => trigger("chosen", { name }), { id: `example-${name}` })),
    );
  root.append(el("div.b-control-name", "Or take an example"), ...options.texts.map(line));
  roam(root, options.texts[0][1].length);
  return function drawn() {};
}
