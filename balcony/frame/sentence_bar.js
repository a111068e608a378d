// The bar below the tabs: one or two sentences as words to press or to edit, and the model to compare with. It holds the
// question as its component's value and asks the server for what a change concerns in the open tab.

import { options, select } from "../controls.js";
import { button, changes, disable, el, showError } from "../parts/elements.js";
import { count } from "../parts/numbers.js";
import { announce, latest, on, visitor } from "./page.js";
import { ask, openTab, partsOf, question, untaken } from "./question.js";
import { answering } from "./answers.js";
import { field, named } from "./field.js";
import { answer } from "./server.js";

const UNKNOWN = "The model never learned this word";
const FIELDS = /** @type {const} */ (["text", "pair"]);

/** @typedef {Record<string, any>} Words see words_value in balcony/frame/masking.py */
/**
 * @typedef {object} Sentences The sentences of the bar and their words.
 * @property {Words} words
 * @property {string} read the model and the texts that the words belong to
 * @property {boolean} isLost the words of the texts were asked for, and there was no answer
 * @property {boolean} isGiven the hidden words were given together with their sentences
 */

/** @type {Words} */
const NONE = { words: [], cuts: [], known: [], second: 0, typed: [], lacking: "", hidden: [] };

const textsKey = () => partsOf(["model", "text", "pair"]);

/** @type {View} */
export function view(root, { trigger, setValue, options }) {
  /** @type {Sentences} */
  const state = { words: NONE, read: "", isLost: false, isGiven: false };
  /** Change the sentences together with their hidden words. @param {Parameters<typeof ask>[0]} update */
  const give = (update) => {
    ask(update);
    state.isGiven = true;
  };
  const fields = FIELDS.map((key) => field(key, give));
  const paint = painter(root, options.tabs, state, fields, give);
  const answers = answering(options.answers, trigger, options.missing);
  const respond = latest(async () => {
    root.ariaBusy = "true";
    await visitor.known; // and all that hears of the change has done so
    state.isLost = false;
    try {
      if (options.tabs[question.tab] && !(await readWords(state, options.missing))) return;
      paint();
      setValue({ ...question });
      answers.answer({ ...question });
    } catch (error) {
      state.isLost = true;
      answers.fail(/** @type {Error} */ (error).message);
      paint();
    } finally {
      root.ariaBusy = "false";
    }
  });
  const offer = offering(fields, options.tabs);
  const open = () => {
    setValue({ ...question });
    trigger("open");
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(".opening")?.remove()));
  };
  on("question", ({ changed }) => {
    if (changed.has("text") || changed.has("pair")) state.isGiven = changed.has("hidden");
    paint();
    respond();
  });
  on("restored", () => {
    state.read = "";
    open();
    offer();
  });
  on("again", respond);
  on("open", open);
  root.hidden = true;
  // A link's tab waits for no server.
  if ("tab" in untaken) openTab({ tab: untaken.tab });
}

/**
 * Read the words of new texts. Returns false when these have changed meanwhile, or their model is not here.
 * @param {Sentences} state @param {string} missing the server's sentence for a model that is not here; the page shows another one then
 */
async function readWords(state, missing) {
  const { text, pair, hidden } = question,
    wanted = textsKey();
  if (wanted === state.read || (!text && !pair && hidden === null)) return true;
  const known = hidden === null ? null : state.read ? { ...state.words, hidden } : NONE;
  const found = /** @type {Words} */ (await answer("words", known));
  if (found.error === missing) {
    announce("failed", null);
    return false;
  }
  const isTheirs = !state.read || state.isGiven;
  // A word may have been pressed meanwhile.
  if (question.text !== text || question.pair !== pair || question.hidden !== hidden) return false;
  state.read = found.error ? "" : wanted; // the hidden words wait for a model that is not here yet
  state.words = { ...NONE, ...found };
  const { words, hidden: others } = state.words;
  const kept =
    hidden !== null && isTheirs ? hidden.filter((/** @type {number} */ each) => each < words.length) : others;
  ask({ hidden: found.error ? (hidden ?? []) : kept });
  return true;
}

/** A word was pressed. @param {string} part of the question that it changes @param {Words} words @param {number} index */
function press(part, { words }, index) {
  if (part === "word") return ask({ word: words[index] });
  const hidden = new Set(question.hidden);
  if (!hidden.delete(index)) hidden.add(index);
  ask({ hidden: [...hidden].sort((a, b) => a - b) });
}

/** A word, with a thin line between its pieces; one that the vocabulary lacks is dotted. @param {Words} words @param {number} index @param {() => void} onclick */
function chip({ words, cuts, known }, index, onclick) {
  const pieces = cuts[index].map((cut, i) =>
    el("span.b-piece", { translate: "no" }, words[index].slice(cut, cuts[index][i + 1])),
  );
  return el(known[index] ? "button.b-word" : "button.b-word.is-unknown", { dir: "auto", onclick }, pieces);
}

/** Gradio has no place between its strip of tabs and their content. @param {HTMLElement} root */
function putBelowTabs(root) {
  const strip = document.querySelector("#tabs > .tab-wrapper"),
    bar = root.closest(".block");
  if (bar && strip && strip.nextElementSibling !== bar) strip.after(bar);
}

/**
 * The line below the sentences, and what paints all words.
 * @param {HTMLElement} root @param {Record<string, any>} tabs see balcony/frame/tab.py @param {Sentences} state
 * @param {ReturnType<typeof field>[]} fields @param {(update: object) => void} give
 */
function painter(root, tabs, state, fields, give) {
  const [hint, lacking] = ["sentence-hint", "unknown-words"].map((id) => el("p.b-empty", { id })),
    problem = el("div"),
    keys = el("p.b-empty", { id: "word-keys" }, "The arrow keys go from word to word."),
    beside = comparison(),
    swap = button("⇄", () => give(swapped(state.words)), { id: "swap", ...named("Swap the sentences") });
  root.classList.add("b-bar-view");
  root.append(
    el("div.b-sentences", fields[0].element, swap, fields[1].element),
    el("div.b-bar-line", hint, keys, beside),
    lacking,
    problem,
  );
  const isNew = changes();

  function build() {
    const { words, read, isLost } = state,
      isKnown = Boolean(read) && !isLost;
    // The same words keep their buttons, and with them the keyboard focus.
    if (!isNew(words, isKnown || [question.text, question.pair])) return;
    const all = words.words.map((_, index) =>
      chip(words, index, () => press(tabs[question.tab].press, state.words, index)),
    );
    for (const [sentence, key] of FIELDS.entries()) {
      const start = sentence ? words.second : 0,
        items = all.slice(start, sentence ? all.length : words.second);
      if (words.error) fields[sentence].show([], [el("span", { translate: "no" }, question[key])]);
      else
        fields[sentence].show(isKnown ? items : null, isKnown ? withMasks(items, words, sentence, start) : undefined);
    }
  }

  return function paint() {
    const tab = tabs[question.tab];
    root.hidden = !tab;
    if (!tab) return;
    putBelowTabs(root);
    build();
    [...root.querySelectorAll(".b-word")].forEach((item, index) => mark(item, index, tab.press, state.words));
    // A field that scrolls can be reached by keyboard, by its words or by itself.
    for (const { chips, rest } of fields) {
      if (tab.press) chips.removeAttribute("tabindex");
      else chips.tabIndex = 0;
      rest();
    }
    root.classList.toggle("is-word", tab.press === "word");
    hint.textContent = tab.hint;
    lacking.textContent = state.words.lacking;
    // The hidden words are known by their numbers.
    disable(swap, state.read !== textsKey() && "The words of the sentences are still being read.");
    beside.hidden = !tab.compares;
    showError(problem, tab.reads_parts ? null : state.words);
  };
}

/** A sentence's words with its typed [MASK]s. @param {Node[]} items @param {Words} words @param {number} sentence @param {number} start its first word */
const withMasks = (items, { typed }, sentence, start) =>
  [...items, ""].flatMap((item, i) => [
    ...typed.filter(([of, index]) => of === sentence && index === start + i).map(() => el("span.b-typed", "[MASK]")),
    ...(item ? [item] : []),
  ]);

/** @param {Element} item @param {number} index @param {string} part that a press changes @param {Words} words */
function mark(item, index, part, { words }) {
  const isHidden = Boolean(question.hidden?.includes(index)),
    isFollowed = words[index].toLowerCase() === question.word?.trim().toLowerCase(),
    isPressed = { hidden: isHidden, word: isFollowed }[part];
  item.setAttribute("aria-pressed", `${isPressed ?? false}`);
  item.classList.toggle("is-asked", isHidden);
  disable(
    /** @type {HTMLButtonElement} */ (item),
    !part && "In this tab a press on a word does nothing.",
    item.classList.contains("is-unknown") ? UNKNOWN : "",
  );
}

/** The question with its sentences swapped. @param {Words} words */
function swapped({ words, second }) {
  const { text, pair, hidden } = /** @type {{text: string, pair: string, hidden: number[] | null}} */ (question),
    moved = hidden?.map((index) => (index < second ? index + words.length - second : index - second));
  return { text: pair, pair: text, hidden: moved?.sort((a, b) => a - b) ?? null };
}

/** The model to compare with: a run of several steps has a second list for one of them, first its newest. */
function comparison() {
  /** @type {import("./page.js").Listed[]} */
  let others = [];
  const stepsOf = (/** @type {string} */ key) => others.find(([other]) => other === key)?.[3] ?? [];
  const model = select("Compare with", [], (key) => choose(key, stepsOf(key)[0]), { id: "compare-with" }),
    step = select("Step to compare with", [], (at) => choose(model.value, at), { id: "compare-step" });
  const choose = (/** @type {string} */ key, /** @type {number | string | undefined} */ at) =>
    ask({ other: at === undefined ? key : `${key}@${at}` });

  function draw() {
    const [key, at] = question.other.split("@"),
      isGone = key && !others.some(([other]) => other === key);
    /** @type {[string, string][]} */
    const pairs = [["", "Nothing"], ...others.map(([other, name]) => /** @type {[string, string]} */ ([other, name]))];
    if (isGone) pairs.push([key, "a model that is gone"]);
    options(model, pairs, key);
    const steps = [...new Set([...stepsOf(key), ...(at ? [Number(at)] : [])])]; // a link may name any step
    steps.sort((a, b) => b - a);
    const named = steps.map((each) => /** @type {[number, string]} */ ([each, `Step ${count(each)}`]));
    options(step, named, at);
    step.hidden = isGone || steps.length < 2;
  }
  on("models", (found) => {
    others = found.filter(([, , , steps]) => steps);
    draw();
  });
  on("question", ({ changed }) => changed.has("other") && draw());
  return el("div.b-compare", el("label", "Compare with ", model), " ", step);
}

/**
 * The sentences of the shown model's text. Those of another text in the bar give way to its first ones; what a person
 * typed stays.
 * @param {ReturnType<typeof field>[]} fields @param {Record<string, any>} tabs
 */
function offering(fields, tabs) {
  /** @type {string[]} */
  let sentences = [];
  let offered = ""; // the model of the sentences
  const offer = latest(async (key) => {
    const found = await answer("sentences", key);
    if (found.error) return;
    offered = key;
    const earlier = new Set(sentences);
    sentences = found.all;
    for (const each of fields) each.offer(sentences);
    const isOther = (/** @type {string} */ text) => earlier.has(text) && !sentences.includes(text),
      shown = [question.text, question.pair].filter(Boolean),
      [text, pair] = found.first;
    if (!shown.length) ask({ text, pair });
    else if (shown.every(isOther))
      ask({ text, pair, hidden: null, word: question.contexts && question.word, start: 0 });
  });
  on("shown", ({ key }) => offer(key).catch(console.warn));
  on("draw", () => {
    if (sentences.length < 2) return;
    const one = (/** @type {number[]} */ list) => list[Math.floor(Math.random() * list.length)],
      firsts = [...sentences.slice(0, -1).keys()],
      at = one(firsts.filter((at) => sentences[at] !== question.text)) ?? 0; // another one, if there is another
    const isNext = !tabs[question.tab]?.draws_strangers || Math.random() < 0.5;
    ask({ text: sentences[at], pair: sentences[(isNext ? at : one(firsts)) + 1], hidden: null });
  });
  return () => {
    if (offered) offer(offered).catch(console.warn);
  };
}
