// A map of the whole model: the tokens as lines that run through the embeddings and the layers to the answers. A press on
// a part opens its stage, and on a head the Attention tab.

import { choose } from "../attention/heads.js";
import { behindText, level } from "../colours.js";
import { scrolling } from "../controls.js";
import { bar, button, el, roam, svg } from "../parts/elements.js";
import { has, number, percent } from "../parts/numbers.js";
import { ask, openTab } from "../frame/question.js";

// Among the parts that can be set to zero; both are of the embeddings, and count as parts of layer 0.
export const POSITIONS = 4,
  SEGMENTS = 5;

/** @import { Child } from "../parts/elements.js" */
/** @import { Shown, Steps } from "./stages.js" */
/** @typedef {{from: number, to: number}} Row the tokens of a line of the map, [from, to); more than one in a gap */

const ROW = 15, // pixels; as in the style sheet
  MOST_ROWS = 20,
  LEAST_ROWS = 9, // so that what is written upwards has room
  CARD = 116, // pixels of an answer
  GUESSES = 3;

/** Open a stage, of this head's layer. @param {string} stage @param {[number, number]} [head] */
function open(stage, head) {
  if (head) choose(head, { stage });
  else ask({ stage });
}

function openHead(head) {
  choose(head);
  openTab({ tab: "attention" });
}

/**
 * The first whole numbers below `count` and those that are needed, `most` at most, as rows with a row for each gap.
 * @param {number} count @param {number} most @param {number[]} needed the most important ones first
 * @returns {Row[]}
 */
export function rowsOf(count, most, needed) {
  const all = Array.from({ length: count }, (_, i) => i),
    kept = new Set([...new Set([...needed, ...all])].slice(0, most));
  /** @type {Row[]} */
  const rows = [];
  for (const i of all) {
    const last = rows[rows.length - 1];
    if (kept.has(i) || !last || kept.has(last.from)) rows.push({ from: i, to: i + 1 });
    else last.to = i + 1;
  }
  return rows;
}

const rowWith = (rows, token) => rows.findIndex(({ to }) => token < to);

/** The head that attends most strongly. @param {[number, number][]} heads the token and the weight of each */
const best = (heads) => heads.reduce((most, [, weight], head) => (weight > heads[most][1] ? head : most), 0);

/** A column of the map. @param {string} kind @param {string} name @param {Child} head @param {Child} below it @param {Child} area */
function column(kind, name, head, below, area) {
  const attributes = { role: "group", "aria-label": name };
  return roam(el(`div.b-bert-column.${kind}`, attributes, head, el("div.b-bert-below", below), area));
}

function pieces({ value: { tokens, token, words } }, rows) {
  const lines = rows.map(({ from, to }) => {
    if (to - from > 1) return el("span.b-bert-token", `${to - from} more`);
    const hidden = words?.position === from ? ".b-hidden-word" : "",
      named = { "data-key": `token ${from}`, title: tokens[from], translate: "no" },
      attributes = { onclick: () => ask({ token: from }), "aria-pressed": from === token, ...named };
    return el("button.b-bert-token", attributes, el(`bdi${hidden}`, tokens[from]));
  });
  const name = button("Pieces", () => open("pieces"), { "data-key": "pieces" });
  return column("is-pieces", "Pieces", name, `${tokens.length} tokens`, el("div.b-bert-area", lines));
}

/** A part that stands upright beside the lines. @param {Child} text @param {() => void} press @param {Record<string, any>} attributes */
const upright = (text, press, attributes) =>
  el("button.b-bert-upright.b-small", { onclick: press, ...attributes }, el("span", text));

/** The mark of a token whose state in a layer, 0 for the embeddings, is another text's. @param {Steps} value @param {Row[]} rows @param {number} level */
function carriedMark({ carried }, rows, level) {
  if (carried?.kind !== "state" || carried.at[0] !== level) return null;
  const title = `Carried from the other text: the state of ${carried.token}`,
    mark = el("span.b-bert-carried", { title, role: "img", "aria-label": title }, "◆");
  mark.style.setProperty("--row", `${rowWith(rows, carried.at[1])}`);
  return mark;
}

function embeddings({ value }, rows) {
  const { ids, segments, zeroed } = value,
    isOff = [false, has(zeroed, [0, POSITIONS]), has(zeroed, [0, SEGMENTS])];
  const cells = [ids, ids.map((_, i) => i), segments].map((numbers) =>
    el(
      "div",
      rows.map(({ from, to }) => el("span", to - from > 1 ? "⋮" : `${numbers[from]}`)),
    ),
  );
  const names = ["word", "+ position", "+ segment"],
    heads = names.map((each, k) => el(isOff[k] ? "span.is-off" : "span", each)),
    name = button("Embeddings", () => open("embeddings"), { "data-key": "embeddings" }),
    area = el("div.b-bert-area", cells, carriedMark(value, rows, 0));
  return column("is-embeddings", "Embeddings", name, heads, area);
}

/** What each head brings from where, as lines to the shown token. @param {Steps} value @param {Row[]} rows @param {number} layer */
function lines({ strongest, token }, rows, layer) {
  const to = rowWith(rows, token) + 0.5,
    still = { "vector-effect": "non-scaling-stroke" };
  const paths = strongest[layer].map(([from, weight], head) => {
    const y = rowWith(rows, from) + 0.5,
      look = { "stroke-width": 1 + 4 * weight, "stroke-opacity": 0.25 + 0.75 * weight, ...still },
      d = `M0 ${y}C50 ${y} 50 ${to} 100 ${to}`;
    return svg("path", { class: "b-bert-line", d, ...look });
  });
  const through = rows.map((_, k) => svg("path", { class: "b-bert-through", d: `M0 ${k + 0.5}H100`, ...still }));
  const size = { viewBox: `0 0 100 ${rows.length}`, preserveAspectRatio: "none", "aria-hidden": "true" };
  return svg("svg", size, through, paths);
}

function layerColumn({ value }, rows, layer) {
  const { tokens, token, head, off, zeroed, parts, carried } = value,
    strongest = value.strongest[layer],
    most = best(strongest),
    number = layer + 1,
    isOut = has(zeroed, [layer, 0]); // then no head counts
  /** A part's name, and its mark where it is set to zero. @param {string} says @param {boolean} isOff @param {string} kind */
  const named = (says, isOff, kind) => {
    const label = isOff ? `${says} · set to zero` : says;
    return { "aria-label": label, title: label, class: isOff ? `${kind} is-off` : kind };
  };
  const name = button(`Layer ${number}`, () => open("layers"), { "data-key": `layer ${layer}` }),
    attention = button("Attention heads", () => open("weights", [layer, most]), {
      "data-key": `attention ${layer}`,
      ...named(`Layer ${number}: attention heads`, isOut, "b-small"),
    }),
    residuals = [1, 3].filter((part) => has(zeroed, [layer, part])).map((part) => el("span.is-off", parts[part]));
  const heads = strongest.map(([from, weight], k) => {
    const says = `Layer ${number}, head ${k + 1}: ${tokens[token]} attends most to ${tokens[from]} (${percent(weight)})`,
      attributes = { "data-key": `head ${layer}.${k}`, ...named(says, isOut || has(off, [layer, k]), "b-bert-head") };
    if (carried?.kind === "head" && `${carried.at}` === `${[layer, k]}`) attributes.class += " is-carried";
    const made = button(`${k + 1}`, () => openHead([layer, k]), attributes);
    made.style.setProperty("--tint", behindText(level(weight)));
    return made;
  });
  const picture = el(isOut ? "div.b-bert-lines.is-out" : "div.b-bert-lines", lines(value, rows, layer)),
    label = el("span.b-bert-weight", percent(strongest[most][1]));
  label.style.setProperty("--row", `${rowWith(rows, strongest[most][0])}`);
  picture.append(label);
  const fed = upright("Feed-forward", () => open("feed-forward", [layer, head[1]]), {
    "data-key": `feed-forward ${layer}`,
    ...named(`Layer ${number}: feed-forward`, has(zeroed, [layer, 2]), "b-bert-upright b-small"),
  });
  const below = [attention, heads, residuals],
    area = el("div.b-bert-area", picture, fed, carriedMark(value, rows, number));
  return column("is-layer", `Layer ${number}`, name, below, area);
}

/** An answer of the model. @param {string} key @param {string} stage @param {Child} title @param {[Child, number][]} lines */
function answer(key, stage, title, lines) {
  const parts = lines.map(([name, share]) => {
    const shown = bar(share, stage === "next-sentence" ? "nsp" : "mlm");
    return el("span.b-bert-answer", el("span", name), shown, el("span.b-number", percent(share)));
  });
  return el("button.b-bert-card.b-small", { onclick: () => open(stage), "data-key": key }, el("b", title), parts);
}

/** What a task asks, and where. @type {Record<string, string>} */
const ASKED = {
  "text-classification": "At [CLS]: which label?",
  "text-regression": "At [CLS]: which number?",
  "multiple-choice": "At [CLS] of each row: which choice?",
  "question-answering": "At each token: where does the answer start and end?",
  "token-classification": "At the marked token: which tag?",
};

/** What comes out at [MASK] and at [CLS]; of a fine-tuned model, what its task's own layer makes. @param {Shown} shown @returns {HTMLButtonElement[]} */
function answers({ value: { words, pair, labels, segments, tokens, task }, missing }) {
  if (task) {
    const lines = task.answers
        .slice(0, GUESSES)
        .map(([name, share]) => /** @type {[Child, number]} */ ([el("bdi", name), share])),
      card = answer("task", "task", ASKED[task.name], lines);
    if (task.number !== null) card.append(el("span.b-number", number(task.number)));
    return [card];
  }
  const isPair = pair && segments.includes(1),
    names = labels[0] === "IsNext" ? ["Yes", "No"] : labels.map((label) => el("bdi", label)),
    shares = isPair ? names.map((name, k) => /** @type {[Child, number]} */ ([name, pair.probabilities[k]])) : [];
  const first = words ? words.top.slice(0, GUESSES) : [],
    own = words?.hidden ? words.top.find(([word]) => word === words.answer) : undefined;
  if (own && !first.includes(own)) first[GUESSES - 1] = own;
  const guesses = first.map(
    ([word, , p]) => /** @type {[Child, number]} */ ([el(own?.[0] === word ? "bdi.b-hidden-word" : "bdi", word), p]),
  );
  // Another answer than that of Next sentence, which reads the hidden word.
  const next = tokens.includes("[MASK]")
    ? "At [CLS], with [MASK]: does the second sentence follow?"
    : "At [CLS]: does the second sentence follow?";
  const follows = labels[0] === "IsNext" ? next : "At [CLS]: what are the two sentences?",
    noPair = pair ? "At [CLS]: there is no second sentence." : `At [CLS]: ${missing[0]}`,
    noWord = tokens.includes("[MASK]") ? `At [MASK]: ${missing[0]}` : "At [MASK]: no word is hidden; click one above.";
  return [
    answer("pair", "next-sentence", isPair ? follows : noPair, shares),
    answer("words", "probabilities", words ? "At [MASK]: which word is hidden?" : noWord, guesses),
  ];
}

/** The column of the answers, each at the height of its token. @param {Shown} shown @param {Row[]} rows */
function answersColumn(shown, rows) {
  const height = Math.max(rows.length, LEAST_ROWS) * ROW,
    cards = answers(shown),
    { task, words, token } = shown.value,
    isAtToken = !task || task.is_of_tokens, // the last card; the first one of two is at [CLS]
    at = ((isAtToken ? rowWith(rows, words?.position ?? token) : 0) + 0.5) * ROW,
    top = Math.max(task ? 0 : CARD + 8, Math.min(at - CARD / 2, height - CARD));
  cards[cards.length - 1].style.top = `${top}px`;
  const whole = Math.max(height, top + CARD),
    line = (/** @type {number} */ from, /** @type {number} */ to) =>
      svg("path", { class: "b-bert-way", d: `M0 ${from}C14 ${from} 10 ${to} 24 ${to}` }),
    size = { viewBox: `0 0 24 ${whole}`, width: 24, height: whole, "aria-hidden": "true" },
    ways = svg("svg", size, !task && line(ROW / 2, 20), (task || words) && line(at, top + 20));
  const area = el("div.b-bert-area", ways, cards);
  area.style.minHeight = `${whole}px`;
  return column("is-answers", "Answers", el("b.b-bert-title", "Answers"), "", area);
}

/** The map of the model; one of many layers is wider than the page. @param {Shown} shown */
export function modelMap(shown) {
  const { tokens, token, words, layers, strongest } = shown.value,
    targets = strongest.map((heads) => heads[best(heads)][0]),
    rows = rowsOf(tokens.length, MOST_ROWS, [0, token, words?.position ?? 0, tokens.length - 1, ...targets]),
    name = "Map of the model; Tab goes to the next part, the arrow keys stay inside one";
  const map = el(
    "div.b-bert",
    { role: "group", "aria-label": name },
    pieces(shown, rows),
    embeddings(shown, rows),
    Array.from({ length: layers }, (_, layer) => layerColumn(shown, rows, layer)),
    answersColumn(shown, rows),
  );
  map.style.setProperty("--rows", `${rows.length}`);
  map.style.setProperty("--layers", `${layers}`);
  return scrolling("Map", map);
}
