// The entry of the page that is saved with a model's attention: the same two views, fed from the page itself.

import { headDetail } from "./head_detail.js";
import { headGrid } from "./head_grid.js";

/** @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
const { grid, detail, layers, options, title } = JSON.parse(part("data").textContent ?? "");
part("title").textContent = title;
const show = headDetail(part("detail"), { options });
const trigger = (name, { layer, head }) => show({ ...detail, layer, head, weights: layers[layer] });
headGrid(part("grid"), { options, trigger })(grid);
show(detail);
