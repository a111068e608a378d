// Buttons that save a view: a picture made from what the page shows, files from the server, code to copy.

import { el } from "./elements.js";
import { picture } from "./picture.js";

/** @typedef {{id: string, of: string, what: string, kinds: string[]}} ExportOptions of: id of the element in a picture */

/** @type {Record<string, string>} */
const NAMES = { png: "PNG", svg: "SVG", json: "JSON", csv: "CSV", html: "HTML", py: "Python" };
/** @type {Record<string, string>} */
const HINTS = { png: "A picture for slides", svg: "A picture that stays sharp at any size", json: "The numbers, for programs",
  csv: "The numbers, for a spreadsheet", html: "One page that works offline", py: "Python code that computes the same numbers" };

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** @param {"png" | "svg"} kind @param {Element} element @param {string} name */
async function savePicture(kind, element, name) {
  const { text, width, height } = picture(element);
  if (kind === "svg") {
    save(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
    return;
  }
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = el("canvas", { width: 2 * width, height: 2 * height });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob((blob) => { if (blob) save(blob, `${name}.png`); });
}

/** @type {View} */
export function exporter(root, { trigger, options: given }) {
  const options = /** @type {ExportOptions} */ (given);
  const code = el("code", {}), copied = el("span", { class: "balcony-export-status", role: "status" });
  const copy = el("button", { type: "button", class: "balcony-small" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied.textContent = "Copied";
    } catch {  // browsers allow it only over https or on this machine
      getSelection()?.selectAllChildren(code);
      copied.textContent = "Selected; copy it with the keyboard";
    }
  });
  const shown = el("div", { class: "balcony-code", hidden: "" },
    el("pre", { tabindex: "0", "aria-label": "Python" }, code), copy, copied);

  /** @param {string} kind */
  function press(kind) {
    copied.textContent = "";
    if (kind === "py") {
      shown.hidden = !shown.hidden;
      if (!shown.hidden) trigger("submit");
    } else if (kind === "png" || kind === "svg") {
      const element = /** @type {Element} */ (document.getElementById(options.of));
      savePicture(kind, element, options.what.replace(/^the /, "").replace(/\W+/g, "-")).catch(console.error);
    } else trigger("select", { kind });
  }

  const buttons = options.kinds.map((kind) => {
    const button = el("button", { type: "button", class: "balcony-small", id: `${options.id}-${kind}`, title: HINTS[kind] }, NAMES[kind]);
    button.addEventListener("click", () => press(kind));
    return button;
  });
  root.append(
    el("div", { class: "balcony-export", role: "group", "aria-label": `Save ${options.what}` },
      el("span", { class: "balcony-export-label" }, `Save ${options.what} as`), ...buttons),
    shown);
  return function draw(/** @type {{code: string} | null} */ value) { code.textContent = value ? value.code : ""; };
}
