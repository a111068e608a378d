// Buttons that save a view: a picture made from what the page shows, files from the server, code to copy.

import { el } from "./elements.js";
import { picture } from "./picture.js";

const NAMES = { png: "PNG", svg: "SVG", json: "JSON", csv: "CSV", html: "HTML", py: "Python" };
const HINTS = { png: "A picture for slides", svg: "A picture that stays sharp at any size", json: "The numbers, for programs",
  csv: "The numbers, for a spreadsheet", html: "A page of its own that works offline", py: "The lines that give the same numbers" };

function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

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
  canvas.toBlob((blob) => save(blob, `${name}.png`));
}

export function exporter(root, { trigger, options }) {
  const code = el("code", {}), copied = el("span", { class: "balcony-export-said", role: "status" });
  const copy = el("button", { type: "button", class: "balcony-small" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied.textContent = "Copied";
    } catch {  // a page that is not served from this machine or by https may not write there
      getSelection()?.selectAllChildren(code);
      copied.textContent = "Marked; copy it with your keyboard";
    }
  });
  const shown = el("div", { class: "balcony-code", hidden: "" },
    el("pre", { tabindex: "0", "aria-label": "Python" }, code), copy, copied);

  function press(kind) {
    copied.textContent = "";
    if (kind === "py") {
      shown.hidden = !shown.hidden;
      if (!shown.hidden) trigger("submit");
    } else if (kind === "png" || kind === "svg") {
      savePicture(kind, document.getElementById(options.of), options.what.replace(/^the /, "").replace(/\W+/g, "-")).catch(console.error);
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
  return function draw(value) { code.textContent = value ? value.code : ""; };
}
