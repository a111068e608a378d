// Patch by hand, below the map: how much of a change of the answer each state of another text's pass brings into this one's.

import { level } from "../colours.js";
import { keepingFocus, scrolling, table } from "../controls.js";
import { exporter } from "../parts/downloads.js";
import { bringIn, button, el, fill, note, notes, roam, showError, tools, withTerms } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { percent } from "../parts/numbers.js";
import { ask, onPart, question } from "../frame/question.js";
import { carriedName, levelName, putBack } from "./stages.js";

/** @import { Child } from "../parts/elements.js" */
/** @typedef {{fractions: number[][], means: number[][], bands: number[][], out: boolean[][], answers: [number, number][][]}} Part of the map: by layer, and by token or head */
/**
 * @typedef {object} Patching See patch_value in balcony/step_by_step/patching.py.
 * @property {string} [error]
 * @property {string} [hint] why it is not possible here
 * @property {[index: number, word: string][]} places
 * @property {number | null} place the chosen one; without one there is nothing of what follows
 * @property {[other: string, here: string]} words
 * @property {[string, string]} answers
 * @property {string[]} notes
 * @property {string} [refused] why there is no map
 * @property {[string[], string[]]} tokens
 * @property {[[number, number], [number, number]]} both
 * @property {number} random sentences
 * @property {Part} states
 * @property {Part} heads
 */

const TICKS = [-1, -0.1, 0, 0.1, 0.5, 1];

/** @param {number} value */
const fixed = (value) =>
  value
    .toFixed(2)
    .replace(/^-0\.00$/, "0.00")
    .replace("-", "−");

class PatchByHand {
  /** @type {Patching | null} */
  value = null;
  choices = el("div");
  maps = { states: heatMap(), heads: heatMap() };
  said = el("p", { "aria-live": "polite" });
  passes = el("div", { "aria-live": "polite" });
  result = el("div");

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options }) {
    const save = el("div", { id: options.save.id }),
      { states, heads } = this.maps,
      maps = el("div.b-patch-maps", states.element, heads.element);
    exporter(save, options.save);
    fill(this.result, this.said, maps, this.passes, el("p.b-empty", options.limits), save);
    this.shown = el(
      "section.b-patch",
      el("h3", "Patch by hand"),
      el("p", withTerms(options.text)),
      this.choices,
      this.result,
    );
    this.root = root;
    onPart(["stage", "carried", "carried_head"], () => this.show());
  }

  /** @param {Patching | null} value */
  draw(value) {
    this.value = value;
    this.show();
  }

  show() {
    const { value, root, result } = this;
    if (question.stage !== "map" || !value) return fill(root);
    if (value.error) return showError(root, value);
    if (!this.shown.isConnected) fill(root, this.shown);
    keepingFocus(this.choices, () =>
      fill(this.choices, value.hint ? el("p.b-empty", value.hint) : this.controls(value)),
    );
    result.hidden = !value.states;
    if (!value.states) return;
    this.drawMap("states", value.states, value);
    this.drawMap("heads", value.heads, value);
    const { out } = value.states,
      every = [...out, ...value.heads.out].flat();
    fill(
      this.said,
      `${every.filter(Boolean).length} of ${every.length} cells stand out (framed): they bring back more, or less, than the states of ${value.random} random sentences do (their mean ± 2 standard deviations). In a model that knows nothing, about one cell in fifty does.`,
    );
    keepingFocus(this.passes, () => fill(this.passes, this.table(value)));
  }

  /** @param {Patching} value @returns {Child[]} */
  controls({ places, place, words, answers, notes: more, refused }) {
    const choose = (/** @type {number} */ index) => ask({ place: index, swaps: null, answers: null });
    const buttons = places.map(([index, word]) =>
      button(el("bdi", word), () => choose(index), { "aria-pressed": index === place, "data-key": `place ${index}` }),
    );
    const attributes = { role: "group", "aria-label": "The word whose place another takes", "data-no-picture": "" },
      group = roam(el("div.b-tools", attributes, el("span", "In the place of:"), buttons));
    if (place === null) return [group, el("p.b-empty", "Press the word that another one is to stand for.")];
    /** @param {string} name @param {string} value @param {(text: string) => void} give */
    const field = (name, value, give) =>
      el(
        "label",
        `${name} `,
        el("input", {
          type: "text",
          value,
          autocomplete: "off",
          "data-key": name,
          onchange: ({ target }) => give(target.value.trim()),
        }),
      );
    const [a, b] = answers,
      rest = question.answers?.slice(2) ?? [],
      put = (/** @type {string} */ word) => ask({ swaps: [word, ...(question.swaps ?? []).slice(1)] });
    const fields = tools(
      field("Put there:", words[0], put),
      field("Compare the answer", a, (text) => ask({ answers: [text, b, ...rest] })),
      field("with the answer", b, (text) => ask({ answers: [a, text, ...rest] })),
    );
    return [group, fields, notes(more), refused && note(refused)];
  }

  /** @param {"states" | "heads"} kind @param {Part} part @param {Patching} value */
  drawMap(kind, { fractions, means, bands, out }, { tokens: [there, here] }) {
    const isOfTokens = kind === "states",
      names = here.map((token, i) => (token === there[i] ? token : `${there[i]} → ${token}`)),
      heads = fractions[0].map((_, head) => `${head + 1}`);
    const name = (/** @type {number} */ i, /** @type {number} */ j) =>
      carriedName(isOfTokens ? [i, j] : null, [i, j], names[j]);
    this.maps[kind].draw({
      rows: fractions.map((_, i) => levelName(i + (isOfTokens ? 0 : 1))),
      columns: isOfTokens ? names : heads,
      values: fractions.flat(),
      level,
      measure: "Comes back",
      ticks: TICKS,
      letters: 18,
      label: isOfTokens ? "What the state of each token in each layer brings back" : "What each head brings back",
      axes: isOfTokens ? "States: a row is a layer, a column a token." : "Heads: a row is a layer, a column a head.",
      hint: "Press a cell to carry its state.",
      outlined: (i, j) => out[i][j],
      describe: (i, j) => [
        name(i, j),
        `: ${fixed(fractions[i][j])} comes back; random sentences: ${fixed(means[i][j])} ± ${fixed(bands[i][j])}`,
      ],
      here: isOfTokens ? question.carried : question.carried_head,
      press: (i, j) => {
        ask(isOfTokens ? { carried: [i, j], carried_head: null } : { carried: null, carried_head: [i, j] });
        bringIn(this.passes);
      },
    });
  }

  /** The passes of both texts, and that with the carried state. @param {Patching} value */
  table({ words: [other, word], answers, both, tokens, states, heads }) {
    const { carried, carried_head: head } = question,
      [layer, index] = carried ?? head ?? [-1, -1],
      { answers: logs, fractions } = carried ? states : heads,
      fraction = fractions[layer]?.[index],
      name = carriedName(carried, head ?? [0, 0], tokens[0][index]);
    /** @param {Child} name @param {[number, number]} logs @param {number} fraction */
    const row = (name, [a, b], fraction) => [
      name,
      ...[a, b].map((each) => percent(Math.exp(each))),
      fixed(a - b),
      fixed(fraction),
    ];
    const rows = [row(["With ", el("bdi", other)], both[0], 1), row(["With ", el("bdi", word)], both[1], 0)];
    if (fraction !== undefined)
      rows.push(row(["With ", el("bdi", word), ", and carried: ", name], logs[layer][index], fraction));
    const titles = ["Pass", ...answers.map((answer) => el("bdi", answer)), "Difference of logits", "Comes back"],
      go = button("Show its map above", () => document.getElementById("steps")?.scrollIntoView());
    return [
      scrolling("Both passes", table(titles, rows, { class: "b-table is-narrow" })),
      fraction !== undefined && tools(go, putBack("Take it out")),
    ];
  }
}

/** @type {View} */
export function view(root, context) {
  const made = new PatchByHand(root, context);
  return (/** @type {Patching | null} */ value) => made.draw(value);
}
