// The teacher's part of the Class tab: how to join, and the limits of runs.

import { el, fill, svg } from "../parts/elements.js";
import { teach } from "./state.js";

/** @param {string} name @param {HTMLElement} input */
export const named = (name, input) => el("label.class-field", name, input);

/** How to join. @param {{address: string, size: number, path: string}} way */
const joining = ({ address, size, path }) => [
  svg(
    "svg",
    { class: "class-code", viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `QR code of ${address}` },
    svg("rect", { width: size, height: size, fill: "#fff" }),
    svg("path", { d: path, fill: "#000" }),
  ),
  el(
    "div",
    el("h3", "Join at"),
    el("p.class-address", address),
    el("p.b-empty", "Others in the same network open this address or scan the code."),
  ),
];

export function desk() {
  const join = el("div.class-join"),
    status = el("p", { role: "status" });
  const limit = async () => {
    const { error } = await teach("limit", steps.valueAsNumber, parameters.valueAsNumber);
    status.textContent = error ?? "Done.";
  };
  const steps = el("input", { id: "class-steps", type: "number", min: 1, onchange: limit }),
    parameters = el("input", { id: "class-parameters", type: "number", min: 1, onchange: limit });
  teach("enter").then(({ error, address, size, path, steps: most, parameters: largest }) => {
    status.textContent = error ?? "";
    if (error) return;
    [steps.value, parameters.value] = [most, largest];
    fill(join, joining({ address, size, path }));
  });
  const limits = el("div.b-tools", named("Most steps of a run", steps), named("Most parameters", parameters));
  return el("section.class-desk", { "aria-label": "For the teacher" }, join, el("div.class-settings", limits, status));
}
