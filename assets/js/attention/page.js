// The entry of the page that is saved with a model's attention: the same two views, fed from the page itself.

import { headDetail } from "./head_detail.js";
import { headGrid } from "./head_grid.js";

/** @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const { grid, detail, layers, title } = JSON.parse(part("data").textContent);
/** @type {ViewContext} */
const context = {
  options: {},
  trigger: (name, { layer, head }) => show({ ...detail, layer, head, weights: layers[layer] }),
  server: {},
  setValue() {},
  choose() {},
};
document.body.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
part("title").textContent = title;
const show = headDetail(part("detail"), context);
headGrid(part("grid"), context)(grid);
show(detail);
