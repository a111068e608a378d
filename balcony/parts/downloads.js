// Saving what a view shows: a picture made from the page, files from the server, code to copy.

import { saved } from "../language/language.js";
import { button, el, fill, note, own, roam } from "./elements.js";
import { copy, panelBelow, popover } from "../controls.js";
import { on, orError, say } from "../frame/page.js";
import { link, question } from "../frame/question.js";
import { answer } from "../frame/server.js";

/** @typedef {{id: string, of: string, what: string, kinds: string[]}} ExportOptions of: id of the element in a picture */

/** @type {Record<string, [name: string, hint: string]>} */
const KINDS = {
  png: ["PNG", "a picture for slides"],
  json: ["JSON", "the numbers, for programs"],
  csv: ["CSV", "the numbers, for a spreadsheet"],
  html: ["HTML", "a page that works offline"],
  py: ["Python", "code that computes the same"],
};

const LONGEST = 16384,
  LARGEST = 2 ** 27; // pixels of a side and of a picture that browsers draw
const WAITS = "The view has no answer to the question yet; save it again when it has.";
const ALONE =
  "Who opens the link sees another model. Download yours under Models and send the file too; it can be opened there.";
const BESIDE = "Download it under Models and send the file too.";
const ONE_RUN = "The link carries the model that is chosen above, and none of your other runs.";
const TOO_LARGE = "The browser could not make this picture; shorten the text.";

/** @param {Blob} blob @param {string} name */
function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** Save a text, an HTML page in the language of this one. @param {string} text @param {string} name */
export const saveText = (text, name) =>
  name.endsWith(".html")
    ? save(new Blob([saved(text)], { type: "text/html" }), name)
    : save(new Blob([text], { type: "text/plain" }), name);

/**
 * Save a file of the server. Its address is relative: behind a proxy the server may not know its own.
 * @param {{path: string, name: string}} file
 */
export async function saveFile({ path, name }) {
  const url = `gradio_api/file=${path.split("/").map(encodeURIComponent).join("/")}`;
  if (name.endsWith(".html")) saveText(await (await fetch(url)).text(), name);
  else el("a", { href: url, download: name }).click();
}

/** @param {HTMLElement} element @param {string} name of the file @param {string[]} title */
async function savePicture(element, name, title) {
  const { picture } = await import("./picture.js");
  const { text, width, height } = picture(element, title);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const scale = Math.min(2, LONGEST / Math.max(width, height), Math.sqrt(LARGEST / (width * height)));
  const canvas = new OffscreenCanvas(Math.floor(scale * width), Math.floor(scale * height));
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  save(await canvas.convertToBlob(), name);
}

/**
 * The button "Save" with its list of kinds of files. named: kinds with a name and a hint of their own
 * @param {{id: string, what: string, kinds: string[], named?: typeof KINDS}} options
 * @param {(kind: string) => void} press
 */
export function saveMenu({ id, what, kinds, named = {} }, press) {
  const items = kinds.map((kind) => {
    const [name, hint] = named[kind] ?? KINDS[kind];
    return el("button", { id: `${id}-${kind}`, onclick: () => press(kind) }, el("b", name), " ", el("span", hint));
  });
  const list = roam(el("div.b-save-kinds", { role: "group", "aria-label": `Save ${what} as` }, items));
  return el("div.b-save", { "data-no-picture": "" }, popover("Save ▾", { "aria-label": `Save ${what}` }, list));
}

/** @type {View} */
export const view = (root, { options }) => exporter(root, options);

/** @param {HTMLElement} root @param {ExportOptions} options */
export function exporter(root, options) {
  const { dialog, show } = codeDialog(options.what);
  const problem = el("div"),
    complain = (/** @type {string} */ text) => fill(problem, note(text, true));

  /** @param {string} name of the file @param {string[]} title */
  async function picture(name, title) {
    const element = /** @type {HTMLElement} */ (document.getElementById(options.of));
    // The title is that of the question, whose words may not be read yet.
    const late = `#question [aria-busy=true], #${options.of} :is(.is-stale, [aria-busy=true])`;
    if (element.closest(".is-stale") || document.querySelector(late)) complain(WAITS);
    else
      await savePicture(element, name, title).catch((error) => {
        console.warn(error);
        complain(TOO_LARGE);
      });
  }

  /** @param {string} kind */
  async function press(kind) {
    fill(problem);
    const found = await orError(answer(options.id, kind));
    if (found.error) say(found.error);
    else if (found.title) await picture(found.name, found.title);
    else if (found.name) saveText(found.content, found.name);
    else show(found.code);
  }
  root.append(saveMenu(options, press), problem, dialog);
}

/** The button that copies the link to what the page shows, and below it the link, for browsers that forbid to copy. */
export function linkButton() {
  const copied = el("span.b-unseen", { role: "status" }),
    field = el("input", { id: "link", type: "text", readonly: "", "aria-label": "Link" }),
    item = button("Copy link", press, { id: "copy-link", title: "Copy a link that shows the same" }),
    panel = panelBelow(item, el("label", "The link to what the page shows: ", field));
  /** @type {import("../frame/page.js").Listed[]} */
  let models = [];
  on("models", (found) => {
    models = found;
  });
  /** What the link cannot carry. */
  function lacks() {
    const missing = question.recipe?.missing,
      [, name, , , isOwn] = models.find(([key]) => key === question.other.split("@")[0]) ?? [];
    return [
      missing ? `${missing} ${ALONE}` : question.tab === "compare" && ONE_RUN,
      name && isOwn && `A link does not carry your model to compare with: ${own(name)}. ${BESIDE}`,
    ];
  }
  async function press() {
    const said = lacks().filter(Boolean).join(" ");
    if (said) say(said);
    field.value = link();
    const isCopied = await copy(field.value, field, () => panel.showPopover());
    item.textContent = copied.textContent = isCopied ? "Copied" : "It is selected below";
    setTimeout(() => {
      item.textContent = "Copy link";
    }, 2000);
  }
  return [item, copied, panel];
}

/** Python to read and copy. While a dialog is open nobody can change the view, so that the code is always that of the view. @param {string} what */
function codeDialog(what) {
  const code = el("code"),
    copied = el("span.b-export-status", { role: "status" });
  const copyIt = async () => {
    copied.textContent = (await copy(code.textContent, code)) ? "Copied" : "Selected; copy it with the keyboard";
  };
  const dialog = el(
    "dialog.b-code",
    { "aria-label": `Python for ${what}` },
    el("pre", { tabindex: "0", "aria-label": "Python" }, code),
    el(
      "div.b-tools",
      button("Copy", copyIt),
      button("Close", () => dialog.close()),
      copied,
    ),
  );
  /** @param {string} text */
  const show = (text) => {
    copied.textContent = "";
    code.textContent = text;
    dialog.showModal();
  };
  return { dialog, show };
}
