// Saving what a view shows: a picture made from the page, files from the server, code to copy.

import { el, note, roam } from "./elements.js";

/** @typedef {{id: string, of: string, what: string, kinds: string[]}} ExportOptions of: id of the element in a picture */
/** @typedef {{number: number, code?: string, title?: string[]}} Exported the answer to the press of that number */

/** @type {Record<string, [name: string, hint: string]>} */
const KINDS = {
  png: ["PNG", "a picture for slides"],
  svg: ["SVG", "a picture, sharp at any size"],
  json: ["JSON", "the numbers, for programs"],
  csv: ["CSV", "the numbers, for a spreadsheet"],
  html: ["HTML", "a page that works offline"],
  py: ["Python", "code that computes the same"],
};

const EDGE = 12; // pixels between the list and the end of the window
const LONGEST = 16384,
  LARGEST = 2 ** 27; // pixels of a side and of a picture that browsers draw
const WAITS = "The view has no answer to the question yet; save it again when it has.";
const TOO_LARGE = "The browser could not make this picture; choose SVG, or a shorter text.";

/** @param {Blob} blob @param {string} name */
export function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** @param {string} kind "png" or "svg" @param {HTMLElement} element @param {string} name @param {string[]} title */
async function savePicture(kind, element, name, title) {
  const { picture } = await import("./picture.js");
  const { text, width, height } = picture(element, title);
  if (kind === "svg") {
    save(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
    return;
  }
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(2, LONGEST / Math.max(width, height), Math.sqrt(LARGEST / (width * height)));
  const canvas = el("canvas", { width: Math.floor(scale * width), height: Math.floor(scale * height) });
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = /** @type {Blob | null} */ (
    await new Promise((resolve) => {
      canvas.toBlob(resolve);
    })
  );
  if (!blob) throw Error("no picture");
  save(blob, `${name}.png`);
}

/**
 * The button "Save" with its list of kinds of files. @param {{id: string, what: string, kinds: string[]}} options
 * @param {(kind: string) => void} press
 */
export function saveMenu({ id, what, kinds }, press) {
  const items = el(
    "div",
    { class: "b-save-kinds", role: "group", "aria-label": `Save ${what} as` },
    ...kinds.map((kind) => {
      const [name, hint] = KINDS[kind];
      const item = el("button", { id: `${id}-${kind}` }, el("b", {}, name), " ", el("span", {}, hint));
      item.addEventListener("click", () => {
        menu.open = false;
        press(kind);
      });
      return item;
    }),
  );
  roam(items);
  const summary = el("summary", { class: "b-small", "aria-label": `Save ${what}` }, "Save ▾");
  const menu = el("details", { class: "b-save", "data-no-picture": "" }, summary, items);
  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    items.style.left = "0"; // or further to the left, where the window ends
    items.style.left = `${Math.min(0, document.documentElement.clientWidth - EDGE - items.getBoundingClientRect().right)}px`;
    items.scrollIntoView({ block: "nearest" });
  });
  menu.addEventListener("focusout", ({ relatedTarget }) => {
    if (relatedTarget instanceof Node && !menu.contains(relatedTarget)) menu.open = false;
  });
  menu.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") {
      menu.open = false;
      summary.focus();
    }
  });
  document.addEventListener("pointerdown", ({ target }) => {
    if (!menu.contains(/** @type {Node} */ (target))) menu.open = false;
  });
  return menu;
}

/** @type {View} */
export function exporter(root, { trigger, options: given }) {
  const options = /** @type {ExportOptions} */ (given);
  const problem = el("div", {}),
    code = el("code", {}),
    copied = el("span", { class: "b-export-status", role: "status" });
  const copy = el("button", { class: "b-small" }, "Copy");
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      copied.textContent = "Copied";
    } catch {
      // browsers allow it only over https or on this machine
      getSelection()?.selectAllChildren(code);
      copied.textContent = "Selected; copy it with the keyboard";
    }
  });
  const close = el("button", { class: "b-small" }, "Close");
  // While a dialog is open nobody can change the view, so that the code is always that of the view.
  const dialog = el(
    "dialog",
    { class: "b-code", "aria-label": `Python for ${options.what}` },
    el("pre", { tabindex: "0", "aria-label": "Python" }, code),
    el("div", { class: "b-tools" }, copy, close, copied),
  );
  close.addEventListener("click", () => dialog.close());

  let number = 0;
  /** @type {string | null} */
  let asked = null;

  root.append(
    saveMenu(options, (kind) => {
      if (!["png", "svg", "py"].includes(kind)) {
        trigger("select", { kind });
        return;
      }
      asked = kind;
      problem.replaceChildren();
      trigger("submit", { kind, number: (number += 1) });
    }),
    problem,
    dialog,
  );

  return function draw(/** @type {Exported | null} */ answer) {
    if (!asked || answer?.number !== number) return;
    if (answer.title) {
      const element = /** @type {HTMLElement} */ (document.getElementById(options.of)),
        complain = (/** @type {string} */ text) => problem.replaceChildren(note(text, true));
      // The title is that of the question.
      if (element.closest(".is-stale") || element.querySelector(".is-stale, [aria-busy=true]")) complain(WAITS);
      else
        savePicture(asked, element, options.what.replace(/^the /, "").replace(/\W+/g, "-"), answer.title).catch(
          (error) => {
            console.warn(error);
            complain(TOO_LARGE);
          },
        );
    } else {
      copied.textContent = "";
      code.textContent = answer.code ?? "";
      dialog.showModal();
    }
    asked = null;
  };
}
