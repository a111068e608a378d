// The file that a button of Gradio's asks the server for; `Page.save` in balcony/frame/page.py gives it.

import { saveFile } from "../parts/downloads.js";

/** @type {View} */
export function view() {
  return function draw(/** @type {{path: string, name: string} | null} */ file) {
    if (file) saveFile(file).catch(console.warn);
  };
}
