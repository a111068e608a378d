// The two views of a class, which only its pages fetch: the board, and the bar above all tabs.

import { bar } from "./bar.js";
import { board } from "./board.js";

/** @type {View} */
export const classRoom = (root, context) => (context.options.lessons ? board : bar)(root, context);
