// The entry of the page that is saved with a model's attention: the same two views, fed from the page itself.

import { headDetail } from "./head_detail.js";
import { headGrid } from "./head_grid.js";

const { grid, detail, layers, options, title } = JSON.parse(document.getElementById("data").textContent);
document.querySelector("h1").textContent = title;
const show = headDetail(document.getElementById("detail"), { options });
const trigger = (name, { layer, head }) => show({ ...detail, layer, head, weights: layers[layer] });
headGrid(document.getElementById("grid"), { options, trigger })(grid);
show(detail);
