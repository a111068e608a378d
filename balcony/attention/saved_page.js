// The entry of the page that is saved with a model's attention: the same two views, fed from the page itself.

import { ask } from "../frame/question.js";
import { view as headDetail } from "./head_detail.js";
import { view as headGrid } from "./head_grid.js";

const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

const { grid, detail, question } = JSON.parse(part("data").textContent);
/** @type {ViewContext} */
const context = { options: {}, trigger() {}, setValue() {} };
const dark = matchMedia("(prefers-color-scheme: dark)");
const follow = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", follow);
follow();
ask(question);
headGrid(part("grid"), context)(grid);
headDetail(part("detail"), context)(detail);
