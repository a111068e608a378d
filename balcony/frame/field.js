// One sentence of the bar: its words, an editor in their place, and a list of sentences from the text.

import { direction, el, fill, roam } from "../parts/elements.js";
import { ask, question } from "./question.js";

const TYPING_MS = 300;
const LONGEST = 90; // letters of a sentence in the list
/** @typedef {"text" | "pair"} Key of a sentence in the question */
const LABELS = { text: "Sentence", pair: "Second sentence" };
const CHOOSE = "Choose a sentence from the text";
const TYPED = {
  text: { "aria-label": LABELS.text, placeholder: "Type a sentence" },
  pair: { "aria-label": LABELS.pair, placeholder: "A second sentence" },
};

/** What a button with a sign for a text is called. @param {string} title */
export const named = (title) => ({ title, "aria-label": title });

/** About the words of a text, which keep room for those that the server finds. @param {string} text */
const early = (text) =>
  (text.match(/[\p{L}\p{M}\p{N}]+|[^\s]/gu) ?? []).map((word) => el("span.b-early", { translate: "no" }, word));

/** @param {string} key */
const parts = (key) => ({
  chips: el("div.b-chips", { role: "group", "aria-label": `Words of: ${LABELS[key]}` }),
  editor: el("textarea", { id: `sentence-${key}`, rows: 1, hidden: "", ...TYPED[key] }),
  edit: el("button.b-icon", { id: `edit-${key}`, ...named(`Edit: ${LABELS[key]}`) }, "✎"),
  list: el("select.b-from-text", { id: `choose-${key}`, title: CHOOSE, "aria-label": `${LABELS[key]} from the text` }),
});

/**
 * @param {Key} key
 * @param {(before: {text?: string, pair?: string, hidden: number[] | null}) => void} give puts back what was before an edit
 */
export function field(key, give) {
  const { chips, editor, edit, list } = parts(key);
  const origin = el("option", { value: "" }, "from the text");
  /** @type {string[]} */
  let sentences = [];

  function close() {
    editor.hidden = Boolean(question[key].trim());
    chips.hidden = !editor.hidden;
  }
  edits(key, { chips, editor, edit, close, give });
  list.addEventListener("change", () => {
    if (list.value) ask({ [key]: sentences[Number(list.value)] });
    list.value = "";
  });

  return {
    element: el("div.b-field", { "data-field": key }, chips, editor, edit, list),
    chips,
    /** The sentences to choose from. @param {string[]} all */
    offer(all) {
      sentences = all;
      const shown = all.map((text) => (text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text));
      fill(list, origin, ...shown.map((text, index) => el("option", { value: index, translate: "no" }, text)));
      this.rest();
    },
    /** Show these words; about those of the text while none are known. @param {Node[] | null} words @param {(Node | string)[]} [between] all parts of the line */
    show(words, between = words ?? []) {
      chips.replaceChildren(...(words ? between : early(question[key])));
      chips.dir = direction((words ?? []).map((item) => item.textContent ?? ""));
      if (words?.length) roam(chips);
    },
    /** Close the editor, unless the person types in it. */
    rest() {
      if (document.activeElement !== editor) close();
    },
  };
}

/** Let a person edit the sentence. @param {Key} key @param {any} parts of the field */
function edits(key, { chips, editor, edit, close, give }) {
  let earlier = "",
    hiddenEarlier = question.hidden, // before the edit
    typing = 0;
  const grow = () => {
    editor.style.height = "auto";
    editor.style.height = `${editor.scrollHeight}px`;
  };
  const open = () => {
    editor.value = question[key];
    editor.hidden = false;
    chips.hidden = true;
    grow();
    editor.focus();
  };
  const take = () => {
    clearTimeout(typing);
    ask({ [key]: editor.value });
  };
  const leave = () => {
    close();
    edit.focus();
  };
  editor.addEventListener("focus", () => {
    earlier = question[key];
    hiddenEarlier = question.hidden;
  });
  edit.addEventListener("click", () => (editor.hidden ? open() : close()));
  chips.addEventListener("click", (/** @type {Event} */ { target }) => {
    if (!(target instanceof Element) || !target.closest("button")) open();
  });
  editor.addEventListener("input", () => {
    grow();
    clearTimeout(typing);
    typing = setTimeout(take, TYPING_MS);
  });
  editor.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      take();
      leave();
    }
    if (event.key === "Escape") {
      editor.value = earlier;
      give({ [key]: earlier, hidden: hiddenEarlier });
      leave();
    }
  });
  editor.addEventListener("blur", () => {
    take();
    close();
  });
}
