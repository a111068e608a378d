// A list of choices of a form; the server may change what it offers.

import { KINDS } from "../parts/control.js";
import { el, fill } from "../parts/elements.js";

/** @type {View} */
export function view(root, context) {
  let offered = "";
  /** @type {import("../parts/control.js").Control} */
  let control;
  return (value) => {
    const { label, info, choices } = context.options;
    if (offered !== JSON.stringify(choices)) {
      offered = JSON.stringify(choices);
      control = KINDS.select({ label, choices }, "", (chosen) => {
        context.setValue(chosen);
        context.trigger("input");
      });
      fill(root, control.parts, info && el("span", {}, info));
    }
    control.show(value, {});
  };
}
