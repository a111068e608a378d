// The entry of the page that is saved with a model's attention: the same two views, fed from the page itself.

import { view as headDetail } from "./head_detail.js";
import { view as headGrid } from "./head_grid.js";
import { onChange, settings } from "./heads.js";

/** @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const { grid, detail, layers } = JSON.parse(part("data").textContent);
/** @type {ViewContext} */
const context = { options: {}, trigger() {}, setValue() {} };
const dark = matchMedia("(prefers-color-scheme: dark)");
const scheme = getComputedStyle(document.documentElement).colorScheme; // "light dark" follows the system
const follow = () => document.body.classList.toggle("dark", scheme === "dark" || (scheme !== "light" && dark.matches));
dark.addEventListener("change", follow);
follow();
const show = headDetail(part("detail"), context);
let shown = detail.layer;
onChange(() => {
  const [layer, head] = settings.picked;
  if (layer === shown) return;
  shown = layer;
  show({ ...detail, layer, head, weights: layers[layer - detail.first] });
});
settings.picked = [detail.layer, detail.head];
headGrid(part("grid"), context)(grid);
show(detail);
