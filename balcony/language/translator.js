// Shows the page in another language: a text that a file of assets/locales has is replaced where it stands, in the same
// turn in which a view writes it, so that nobody sees the English one.
//
// A key is an English text. {} stands for a number. Other holes have a name: in lower case for what the page does not
// write, such as a person's words, with a capital for a text that is translated too. A translation has the same
// holes; {2} is the second number. A text that has no key is split into its lines, parts and sentences.

import { plain } from "../parts/elements.js";

const ATTRIBUTES = ["title", "aria-label", "aria-valuetext", "placeholder", "alt", "data-name", "text"];
const NOT_OURS = "[translate=no], bdi:not([translate]), td.filename, code, pre, script, style"; // a person's words, a model's, a program's
const OWN = /\u2068[^\u2069]*\u2069/g; // a person's words within a text, see `own` in balcony/handlers.py
const FIRST_SIGN = 0xe000; // of Unicode's signs without a meaning: one stands for each of these words
const SIGNS = /[\ue000-\uf8ff]/g;
const NUMBER = String.raw`\d+(?:,\d{3})*(?:\.\d+)?`;
const NUMBERS = new RegExp(NUMBER, "g");
const HOLES = /\{(\d*)(\w*)\}/g;
const SEPARATORS = ["\n", " · ", ". ", "? ", "; ", ": ", ", "];
const LONGEST = 2000; // characters of a text that is compared with patterns
const MOST_FOUND = 5000;

/** @typedef {{holes: string[], find: RegExp, translation: string}} Pattern */
/** @type {Record<string, string>} */
let texts = {};
/** @type {Pattern[]} */
let patterns = [];
/** What was looked for with patterns. @type {Map<string, string | null>} */
const found = new Map();
/** The English of what stands translated in a node or an attribute. @type {WeakMap<Node, Record<string, [english: string, shown: string]>>} */
const originals = new WeakMap();
/** @type {MutationObserver | null} */
let observer = null;

/** Show the page in a language. @param {string} code */
export async function translate(code) {
  if (code === "en") return show({});
  const answer = await fetch(new URL(`../locales/${code.slice(0, 2)}.json`, import.meta.url));
  if (!answer.ok) throw Error(answer.url);
  show(await answer.json());
}

/** Show the page with these texts, and what is written there from now on. A saved page calls it too. @param {Record<string, string>} translations */
export function show(translations) {
  // A text without its terms, such as the name of a column beside each of its numbers, needs no key of its own.
  texts = Object.fromEntries(Object.entries(translations).map((entry) => entry.map(plain)));
  Object.assign(texts, translations);
  patterns = Object.entries(texts)
    .filter(([key]) => /\{[a-z]/i.test(key))
    .sort(([a], [b]) => literal(b) - literal(a))
    .map(([key, translation]) => pattern(key, translation));
  found.clear();
  all(document.body);
  observer ??= new MutationObserver(changed);
  observer.observe(document.body, { childList: true, characterData: true, subtree: true, attributeFilter: ATTRIBUTES });
}

/** Translate now, not at the end of this turn, what has just been written. */
export const translateNow = () => changed(observer?.takeRecords() ?? []);

/** An HTML page in the language of this one, with the texts for what its scripts will write. @param {string} html */
export function saved(html) {
  const { documentElement: root } = new DOMParser().parseFromString(html, "text/html");
  root.lang = document.documentElement.lang;
  all(root);
  /** @type {HTMLScriptElement | null} */
  const script = root.querySelector("[type=module]");
  if (script) script.text += `import { show } from "language/translator.js"; show(${JSON.stringify(texts)})`;
  return `<!doctype html>\n${root.outerHTML}`;
}

/** A text in the language of the page; null if it has none. @param {string} english @returns {string | null} */
function translated(english) {
  /** @type {string[]} */
  const words = [],
    text = english.trim().replace(OWN, (each) => String.fromCharCode(FIRST_SIGN + words.push(each) - 1));
  const result = words.length
    ? ofPage(text)?.replace(SIGNS, (sign) => words[sign.charCodeAt(0) - FIRST_SIGN] ?? sign)
    : ofPage(text);
  if (result === undefined || result === null) return null;
  // No space before a mark that has its own.
  return english.replace(english.trim(), () => result).replace(/^ (?=[，。、；：])/, "");
}

/** The same for a text without a person's words. @param {string} text @returns {string | null} */
function ofPage(text) {
  if (!/[a-z]/i.test(text)) return null;
  const known = written(text);
  if (known !== null) return known;
  if (text.length > LONGEST) return null;
  let result = found.get(text);
  if (result === undefined) {
    const isMany = text.includes("\n"); // a pattern is of one line
    result =
      (isMany ? split(text) : null) ?? ended(text, written) ?? matched(text) ?? split(text) ?? ended(text, ofPage);
    if (found.size >= MOST_FOUND) found.clear();
    found.set(text, result);
  }
  return result;
}

/** By the key with {} for each number. @param {string} text */
function counted(text) {
  /** @type {string[]} */
  const numbers = [];
  const key = text.replace(NUMBERS, (number) => (numbers.push(number), "{}"));
  return numbers.length && Object.hasOwn(texts, key) ? fill(texts[key], numbers, {}) : null;
}

/** By the key with the longest text around its holes, if those for texts of the page have one. @param {string} text */
function matched(text) {
  for (const { holes, find, translation } of patterns) {
    const parts = find.exec(text)?.slice(1);
    if (!parts) continue;
    /** @type {Record<string, string>} */
    const words = {};
    holes.forEach((hole, k) => {
      if (hole) words[hole] = /[A-Z]/.test(hole) ? (inLanguage(parts[k]) ?? "") : parts[k];
    });
    if (holes.every((hole) => !hole || words[hole]))
      return fill(
        translation,
        parts.filter((_, k) => !holes[k]),
        words,
      );
  }
  return null;
}

/** By its parts, if one of them has a translation. The last one goes first: a name may have a comma. @param {string} text */
function split(text) {
  for (const separator of SEPARATORS) {
    const at = text.lastIndexOf(separator),
      end = at + separator.trimEnd().length;
    if (at < 0) continue;
    // A sentence keeps its mark.
    const isMark = /[.?]/.test(separator),
      parts = [text.slice(0, isMark ? end : at), text.slice(at + separator.length)];
    const [before, after] = parts.map(inLanguage);
    if (before !== null && after !== null)
      return before + (isMark ? (/[。？]$/.test(before) ? "" : " ") : (texts[separator] ?? separator)) + after;
    const [first, last] = parts.map(translated);
    if (first !== null || last !== null) return (first ?? parts[0]) + (isMark ? " " : separator) + (last ?? parts[1]);
  }
  return null;
}

/** By its own key, or that of a part of a sentence which it begins. @param {string} text */
function written(text) {
  const part = text.charAt(0).toLowerCase() + text.slice(1),
    key = [text, part].find((each) => Object.hasOwn(texts, each));
  return key ? texts[key] : (counted(text) ?? counted(part));
}

/** A sentence whose key has no full stop. @param {string} text @param {(text: string) => string | null} translate */
function ended(text, translate) {
  const result = text.endsWith(".") ? translate(text.slice(0, -1)) : null;
  return result === null ? null : result + (texts["."] ?? ".");
}

/** The same; what has no letters needs no translation. @param {string} text */
const inLanguage = (text) => translated(text) ?? (/[a-z]/i.test(text) ? null : text);

/** @param {string} translation @param {string[]} numbers @param {Record<string, string>} words */
function fill(translation, numbers, words) {
  let next = 0;
  return translation.replace(HOLES, (_, index, name) => (name ? words[name] : numbers[index ? index - 1 : next++]));
}

/** The number of characters outside of holes. @param {string} key */
const literal = (key) => key.replace(HOLES, "").length;

/** @param {string} key @param {string} translation @returns {Pattern} */
function pattern(key, translation) {
  /** @type {string[]} */
  const holes = [];
  const parts = key.split(/(\{\w*\})/).map((part, k) => {
    if (k % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    holes.push(part.slice(1, -1));
    return part === "{}" ? `(${NUMBER})` : "(.+?)";
  });
  return { holes, find: new RegExp(`^${parts.join("")}$`, "s"), translation };
}

/**
 * @param {Node} node @param {string} name of the attribute, or empty
 * @param {string} value that stands there @param {(value: string) => void} write
 */
function put(node, name, value, write) {
  const of = originals.get(node) ?? {},
    [english, shown] = of[name] ?? [];
  const text = value === shown ? /** @type {string} */ (english) : value,
    next = translated(text) ?? text;
  if (next !== text) originals.set(node, Object.assign(of, { [name]: [text, next] }));
  if (next !== value) write(next);
}

/** @param {Element} element @param {string} name */
function showAttribute(element, name) {
  const value = element.getAttribute(name);
  if (value && !element.matches(NOT_OURS)) put(element, name, value, (text) => element.setAttribute(name, text));
}

/** @param {Node} root */
function all(root) {
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  /** @type {Node | null} */
  let node = root;
  for (; node; node = walker.nextNode()) {
    if (node instanceof Text) {
      if (!node.parentElement?.closest(`${NOT_OURS}, textarea, b-text`))
        put(node, "", node.data, (text) => {
          /** @type {Text} */ (node).data = text;
        });
    } else if (node instanceof Element) {
      for (const name of ATTRIBUTES) showAttribute(node, name);
    }
  }
}

/** @param {MutationRecord[]} records */
function changed(records) {
  for (const { type, target, attributeName, addedNodes } of records) {
    if (type === "childList") addedNodes.forEach(all);
    else if (type === "characterData") all(target);
    else showAttribute(/** @type {Element} */ (target), attributeName ?? "");
  }
}
