// A list of choices of a form. It is the browser's own: Gradio's stays open when the Tab key leaves it, and has its label
// as the value of a field, which the page cannot translate.

import { el } from "../parts/elements.js";

/** @type {View} */
export function view(root, { trigger, options: { label, info, choices }, setValue }) {
  const control = el("select", { "aria-label": label }, ...choices.map(([name]) => el("option", {}, name)));
  root.append(el("b", {}, label), ...(info ? [el("span", {}, info)] : []), control);
  control.addEventListener("change", () => {
    setValue(choices[control.selectedIndex][1]);
    trigger("input");
  });
  return (value) => {
    const before = control.dataset.shown;
    control.selectedIndex = choices.findIndex((choice) => choice[1] === value);
    control.dataset.shown = `${value}`;
    if (before !== undefined && before !== control.dataset.shown) trigger("change");
  };
}
