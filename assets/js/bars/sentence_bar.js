// The bar below the tabs: one or two sentences as words to press or to edit, and the model to compare with. It holds the
// question as its component's value and asks the server for what a change concerns in the open tab.

import { direction, disable, el, note, roam } from "../parts/elements.js";
import { announce, latest, on, orError, visitor } from "../parts/page.js";
import { ask, question } from "../parts/question.js";
import { expect, lose, receive } from "../views.js";

const UNKNOWN = "The model never learned this word";
const TYPING_MS = 300;
const REST_MS = 100; // between an answer and the next question of its kind
/** What a press on a word does, by tab. */
const PRESSES = {
  "masked-words": "Click a word to hide it from the model; double-click to hide only that one.",
  attention: "Click a word to hide it from the model.",
  "step-by-step": "Click a word to hide it from the model; a hidden word becomes [MASK].",
  "words-in-context": "Click a word to follow it through several sentences.",
  "next-sentence": "",
  "fine-tune": "",
};
const COMPARES = new Set(["masked-words", "next-sentence", "attention"]);
const FIELDS = /** @type {const} */ (["text", "pair"]);
const LABELS = { text: "Sentence", pair: "Second sentence" };

/**
 * @typedef {object} Words See words_value in ui/parts/masking.py.
 * @property {string[]} words
 * @property {number[][]} cuts
 * @property {boolean[]} known
 * @property {number} second
 * @property {[sentence: number, index: number][]} typed a typed [MASK] and the word after it
 * @property {number[]} hidden
 * @property {string} [error]
 */

/** @type {Words} */
const NONE = { words: [], cuts: [], known: [], second: 0, typed: [], hidden: [] };

/** @type {View} */
export function sentenceBar(root, { trigger, server, setValue, options }) {
  let words = NONE;
  let read = ""; // the model and the texts that the words belong to
  let isLost = false; // the words of the texts were asked for, and there was no answer
  let built = "";
  /** @type {string[]} */
  let sentences = [];
  /** @type {Record<string, string>} */
  const asked = {}; // by event, the parts of the question when it was last asked
  const fetching = {}; // by event
  /** @type {{text: string, pair: string, hidden: number[] | null} | null} */
  let before = null;
  let typing = 0;
  let isGiven = false; // the hidden words were given together with their sentences
  let offered = ""; // the model of the sentences

  const hint = el("p", { class: "b-empty", id: "sentence-hint" });
  const problem = el("div", {});
  const undo = el("button", { id: "undo", class: "b-small-button", hidden: "" }, "Undo");
  /** What a button with a sign for a text is called. @param {string} title */
  const named = (title) => ({ title, "aria-label": title });
  const swap = el("button", { id: "swap", class: "b-small-button", ...named("Swap the sentences") }, "⇄");
  const compare = el("select", { id: "compare-with", "aria-label": "Compare with" });
  const beside = el("label", { class: "b-compare" }, "Compare with ", compare);
  const fields = Object.fromEntries(FIELDS.map((key) => [key, field(key)]));
  root.classList.add("b-bar-view");
  root.append(
    el("div", { class: "b-sentences" }, fields.text.element, swap, fields.pair.element),
    el("div", { class: "b-bar-line" }, hint, undo, beside),
    problem,
  );

  /** One sentence: its words, an editor in their place, and a list of sentences from the text. @param {"text" | "pair"} key */
  function field(key) {
    const chips = el("div", { class: "b-chips", role: "group", "aria-label": `Words of: ${LABELS[key]}` });
    const editor = el("textarea", {
      id: `sentence-${key}`,
      rows: 1,
      "aria-label": LABELS[key],
      hidden: "",
      placeholder: key === "text" ? "Type a sentence" : "A second sentence",
    });
    const edit = el("button", { class: "b-icon", id: `edit-${key}`, ...named(`Edit: ${LABELS[key]}`) }, "✎");
    const list = el("select", {
      class: "b-from-text",
      id: `choose-${key}`,
      title: "A sentence from the text",
      "aria-label": `${LABELS[key]} from the text`,
    });
    const element = el("div", { class: "b-field", "data-field": key }, chips, editor, edit, list);
    const open = () => {
      editor.value = question[key];
      editor.hidden = false;
      chips.hidden = true;
      grow();
      editor.focus();
    };
    const grow = () => {
      editor.style.height = "auto";
      editor.style.height = `${editor.scrollHeight}px`;
    };
    let earlier = "",
      hiddenEarlier = question.hidden; // before the edit
    editor.addEventListener("focus", () => {
      earlier = question[key];
      hiddenEarlier = question.hidden;
    });
    const take = () => {
      clearTimeout(typing);
      if (editor.value === question[key]) return;
      before = null;
      ask({ [key]: editor.value });
    };
    edit.addEventListener("click", () => (editor.hidden ? open() : close()));
    chips.addEventListener("click", ({ target }) => {
      if (!(target instanceof Element) || !target.closest("button")) open();
    });
    editor.addEventListener("input", () => {
      grow();
      clearTimeout(typing);
      typing = setTimeout(take, TYPING_MS);
    });
    editor.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.isComposing) {
        event.preventDefault();
        take();
        close();
        edit.focus();
      }
      if (event.key === "Escape") {
        editor.value = earlier;
        give({ [key]: earlier, hidden: hiddenEarlier });
        close();
        edit.focus();
      }
    });
    editor.addEventListener("blur", () => {
      take();
      close();
    });
    list.addEventListener("change", () => {
      if (list.value) ask({ [key]: sentences[Number(list.value)] });
      list.value = "";
    });
    function close() {
      editor.hidden = Boolean(question[key].trim());
      chips.hidden = !editor.hidden;
    }
    return { element, chips, editor, list, close };
  }

  /** Change the sentences together with their hidden words. @param {Parameters<typeof ask>[0]} update */
  function give(update) {
    ask(update);
    isGiven = true;
  }

  /** @param {number} index @param {boolean} alone */
  function press(index, alone) {
    if (question.tab === "words-in-context") {
      ask({ word: words.words[index] });
      setValue(value());
      trigger("restored"); // the tab's own box shows the word
      return;
    }
    const hidden = new Set(question.hidden);
    if (alone) {
      hidden.clear();
      hidden.add(index);
    } else if (!hidden.delete(index)) hidden.add(index);
    ask({ hidden: [...hidden].sort((a, b) => a - b) });
  }

  /** A word, with a thin line between its pieces; one that the vocabulary lacks is dotted. @param {number} index */
  function chip(index) {
    const word = words.words[index],
      cuts = words.cuts[index],
      known = words.known[index];
    const pieces = cuts.map((cut, i) =>
      el("span", { class: "b-piece", translate: "no" }, word.slice(cut, cuts[i + 1])),
    );
    const item = el("button", { class: known ? "b-word" : "b-word is-unknown", dir: "auto" }, ...pieces);
    // The second click of a double click picks this word alone.
    item.addEventListener("click", (event) => press(index, event.detail === 2));
    return item;
  }

  /** About the words of a text, which keep room for those that the server finds. @param {string} text */
  const early = (text) =>
    (text.match(/[\p{L}\p{M}\p{N}]+|[^\s]/gu) ?? []).map((word) =>
      el("span", { class: "b-early", translate: "no" }, word),
    );

  function paint() {
    // Gradio has no place between its strip of tabs and their content.
    const strip = document.querySelector("#tabs > .tab-wrapper"),
      block = root.closest("#question");
    if (strip && block && strip.nextElementSibling !== block) strip.after(block);
    const isShown = question.tab in PRESSES,
      pressable = Boolean(PRESSES[question.tab]);
    root.hidden = !isShown;
    if (!isShown) return;
    const shape = JSON.stringify([
      words.words,
      words.cuts,
      words.known,
      words.second,
      words.typed,
      read && !isLost ? 0 : [question.text, question.pair],
    ]);
    // The same words keep their buttons, and with them the keyboard focus.
    if (shape !== built) {
      const all = words.words.map((_, index) => chip(index));
      for (const [sentence, key] of FIELDS.entries()) {
        const [start, end] = sentence ? [words.second, all.length] : [0, words.second],
          part = all.slice(start, end);
        const items = [...part, ""].flatMap((item, i) => [
          ...words.typed
            .filter(([of, index]) => of === sentence && index === start + i)
            .map(() => el("span", { class: "b-typed" }, "[MASK]")),
          item,
        ]);
        fields[key].chips.replaceChildren(
          ...(words.error
            ? [el("span", { translate: "no" }, question[key])]
            : read && !isLost
              ? items
              : early(question[key])),
        );
        fields[key].chips.dir = direction(part.map((item) => item.textContent ?? ""));
        if (part.length) roam(fields[key].chips);
      }
      built = shape;
    }
    const hidden = new Set(question.tab === "words-in-context" ? [] : question.hidden);
    [...root.querySelectorAll(".b-word")].forEach((item, index) => {
      const isWord =
        question.tab === "words-in-context" && words.words[index].toLowerCase() === question.word?.trim().toLowerCase();
      item.setAttribute("aria-pressed", `${pressable && (hidden.has(index) || isWord)}`);
      disable(
        /** @type {HTMLButtonElement} */ (item),
        !pressable && "In this tab a press on a word does nothing.",
        item.classList.contains("is-unknown") ? UNKNOWN : "",
      );
    });
    // A field that scrolls can be reached by keyboard, by its words or by itself.
    for (const { chips } of Object.values(fields)) pressable ? chips.removeAttribute("tabindex") : (chips.tabIndex = 0);
    root.classList.toggle("is-word", question.tab === "words-in-context");
    for (const key of FIELDS) if (document.activeElement !== fields[key].editor) fields[key].close();
    hint.textContent = PRESSES[question.tab];
    undo.hidden = before === null;
    // The hidden words are known by their numbers.
    disable(swap, read !== textsKey() && "The words of the sentences are still being read.");
    beside.hidden = !COMPARES.has(question.tab);
    // A task's model may read a long text in parts; its answer shows any error.
    problem.replaceChildren(...(words.error && question.tab !== "fine-tune" ? [note(words.error, true)] : []));
  }

  const textsKey = () => JSON.stringify([question.model, question.text, question.pair]);

  /** Read the words of new texts. Returns false when these have changed meanwhile. */
  async function readWords() {
    const { text, pair, hidden } = question,
      wanted = textsKey();
    if (wanted === read || (!text && !pair && hidden === null)) return true;
    const known = hidden === null ? null : read ? { ...words, hidden } : NONE;
    const found = /** @type {Words} */ (await server.words(visitor.token, value(), known));
    const isTheirs = !read || isGiven;
    // A word may have been pressed meanwhile.
    if (question.text !== text || question.pair !== pair || question.hidden !== hidden) return false;
    read = found.error ? "" : wanted; // the hidden words wait for a model that is not here yet
    words = { ...NONE, ...found };
    const kept = hidden !== null && isTheirs ? hidden.filter((index) => index < words.words.length) : words.hidden;
    ask({ hidden: found.error ? (hidden ?? []) : kept });
    return true;
  }

  /** What the server gets. */
  const value = () => ({ ...question, hidden: question.hidden ?? [] });

  /** The parts of a question that an event answers. @param {string} event */
  const parts = (event, of = value()) => JSON.stringify(options.events[event][1].map((key) => of[key]));

  /**
   * Show the answer to an event; a tab's own components are set unless the question has changed meanwhile. What has failed is
   * due again.
   * @param {string} event @param {any} now
   */
  async function fetch(event, now) {
    const values = await orError(server.answer(visitor.token, event, now));
    const hasFailed = values.error || Object.values(values).some((value) => value?.error || value?.other?.error);
    if (hasFailed && asked[event] === parts(event, now)) delete asked[event];
    if (values.error) {
      lose(options.answered[event], now.number, values.error);
      announce("failed", null);
      return;
    }
    receive(now.number, values);
    window.Balcony.values = values;
    if (parts(event) === parts(event, now)) trigger(event);
    const later = Object.keys(values).filter((id) => values[id]?.more);
    if (later.length) complete(event, later, values[later[0]].more, now);
    await new Promise((resolve) => {
      setTimeout(resolve, REST_MS);
    });
  }

  /** Ask for what components show later than the rest of an answer. */
  const complete = latest(
    async (
      /** @type {string} */ event,
      /** @type {string[]} */ ids,
      /** @type {string} */ more,
      /** @type {any} */ now,
    ) => {
      const values = await server
        .answer(visitor.token, more, now)
        .catch((/** @type {Error} */ { message }) => Object.fromEntries(ids.map((id) => [id, { unnamed: message }])));
      if (Object.values(values).some(({ unnamed }) => unnamed) && asked[event] === parts(event, now))
        delete asked[event];
      receive(now.number, values, true);
    },
  );

  /** The events of the open tab that have no answer to this question. */
  const due = (now = value()) =>
    Object.keys(options.events).filter(
      (event) => options.events[event][0] === now.tab && asked[event] !== parts(event, now),
    );

  /** Ask for the answers that are due. */
  function answer() {
    const now = value(),
      events = due(now);
    setValue(now);
    for (const event of events) {
      asked[event] = parts(event, now);
      if (event === "layer" && events.includes("heads")) continue;
      expect(options.answered[event], now.number);
      (fetching[event] ??= latest(fetch))(event, now);
    }
  }

  const respond = latest(async () => {
    await visitor.known;
    isLost = false;
    try {
      if (question.tab in PRESSES && !(await readWords())) return;
    } catch (error) {
      isLost = true;
      const { number } = question;
      for (const ids of due().map((event) => options.answered[event])) {
        expect(ids, number);
        lose(ids, number, /** @type {Error} */ (error).message);
      }
    }
    paint();
    if (!isLost) answer();
  });

  /** The sentences of the shown model's text; those of another text in the bar give way to its first ones. @param {string} key */
  const offer = latest(async (key) => {
    const found = await server.sentences(visitor.token, key);
    if (found.error) return;
    offered = key;
    const earlier = new Set(sentences);
    sentences = found.all;
    for (const each of FIELDS) {
      fields[each].list.replaceChildren(
        el("option", { value: "" }, "from the text"),
        ...sentences.map((sentence, index) =>
          el(
            "option",
            { value: index, translate: "no" },
            sentence.length > 90 ? `${sentence.slice(0, 89)}…` : sentence,
          ),
        ),
      );
    }
    const isOther = (text) => earlier.has(text) && !sentences.includes(text);
    if (!question.text && !question.pair) ask({ text: found.first[0], pair: found.first[1] });
    else if (isOther(question.text) || isOther(question.pair)) {
      ask({ text: found.first[0], pair: found.first[1], hidden: null, word: null, contexts: null, start: 0 });
    }
  });

  swap.addEventListener("click", () => {
    const { length } = words.words,
      { second } = words;
    const hidden = question.hidden
      ?.map((index) => (index < second ? index + length - second : index - second))
      .sort((a, b) => a - b);
    give({ text: question.pair, pair: question.text, hidden: hidden ?? null });
  });
  undo.addEventListener("click", () => {
    const earlier = before;
    before = null;
    if (earlier) give(earlier);
  });
  compare.addEventListener("change", () => ask({ other: compare.value }));
  on("draw", () => {
    if (sentences.length < 2) return;
    const pick = () => Math.floor(Math.random() * (sentences.length - 1)),
      at = pick();
    const isNext = question.tab !== "next-sentence" || Math.random() < 0.5;
    ask({ text: sentences[at], pair: sentences[isNext ? at + 1 : pick() + 1], hidden: null });
  });
  on("replaced", (earlier) => {
    before = earlier;
  });
  on("shown", ({ key }) => offer(key).catch(console.warn));
  on("models", ({ others }) => {
    const missing =
      question.other && !others.some(([key]) => key === question.other)
        ? [[question.other, "a model that is gone"]]
        : [];
    compare.replaceChildren(
      ...[["", "Nothing"], ...others, ...missing].map(([key, title]) => el("option", { value: key }, title)),
    );
    compare.value = question.other;
  });
  on("question", ({ changed }) => {
    if (changed.has("text") || changed.has("pair")) isGiven = changed.has("hidden");
    compare.value = question.other;
    paint();
    respond().catch(console.warn);
  });
  const open = () => {
    setValue(value());
    trigger("open");
  };
  on("restored", () => {
    read = "";
    open();
    trigger("restored");
    if (offered) offer(offered).catch(console.warn);
  });
  on("again", () => respond().catch(console.warn));
  // Tabs that a narrow window does not show have no button to press.
  on("open", open);
  root.hidden = true;

  return function draw() {};
}
