// Patch by hand, below the map: how much of a change of the answer each state of another text's pass brings into this one's.

import { level } from "../colours.js";
import { keepingFocus, scrolling, table } from "../controls.js";
import { exporter } from "../parts/downloads.js";
import { bringIn, draws, el, fill, note, notes, showError, tools, withTerms } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { fixed, percent } from "../parts/numbers.js";
import { placesOf } from "../parts/swaps.js";
import { ask, onPart, question } from "../frame/question.js";
import { carriedName, levelName } from "./stages.js";

/** @import { Child } from "../parts/elements.js" */
/** @typedef {any} Patching see patch_value in balcony/step_by_step/patching.py */

const KINDS = /** @type {const} */ (["state", "head"]); // in the order of `carried` of the question

class PatchByHand {
  /** @type {Patching | null} */
  value = null;
  choices = el("div");
  maps = { state: heatMap(), head: heatMap() };
  said = el("p", { "aria-live": "polite" });
  passes = el("div", { "aria-live": "polite" });
  result = el("div");

  constructor(root, { options: { save, text, limits } }) {
    const saved = el("div", { id: save.id }),
      maps = el("div.b-patch-maps", this.maps.state.element, this.maps.head.element);
    exporter(saved, save);
    fill(this.result, this.said, maps, this.passes, el("p.b-empty", limits), saved);
    this.shown = el("section.b-patch", el("h3", "Patch by hand"), el("p", withTerms(text)), this.choices, this.result);
    this.root = root;
    onPart(["stage", "carried"], () => this.draw(this.value));
  }

  draw(value) {
    this.value = value;
    const { root, shown, choices, result, said, passes } = this;
    if (question.stage !== "map" || !value) return fill(root);
    if (value.error) return showError(root, value);
    if (!shown.isConnected) fill(root, shown);
    keepingFocus(choices, () => fill(choices, value.hint ? el("p.b-empty", value.hint) : this.controls(value)));
    result.hidden = !value.state;
    if (!value.state) return;
    KINDS.forEach((_, k) => this.drawMap(k, value));
    const cells = [value.state, value.head].flatMap(({ out }) => out.flat());
    said.textContent = `${cells.filter(Boolean).length} of ${cells.length} cells stand out (framed): they bring back more, or less, than the states of ${value.random} random sentences do (their mean ± 2 standard deviations). In a model that knows nothing, about one cell in fifty does.`;
    keepingFocus(passes, () => fill(passes, this.table(value)));
  }

  /** @param {Patching} value @returns {Child[]} */
  controls({ places, place, words, answers, notes: more, refused }) {
    const group = placesOf(places, place, (chosen) => ask({ place: chosen, swaps: null, answers: null }));
    if (place === null) return [group, el("p.b-empty", "Press the word to replace.")];
    /** @param {string} name @param {string} value @param {(text: string) => object} change of the question */
    const field = (name, value, change) => {
      const onchange = ({ target }) => ask(change(target.value.trim()));
      return el(
        "label",
        `${name} `,
        el("input", { type: "text", value, autocomplete: "off", "data-key": name, onchange }),
      );
    };
    const fields = tools(
      field("Put there:", words[0], (text) => ({ swaps: [text, ...(question.swaps ?? []).slice(1)] })),
      field("Compare the answer", answers[0], (text) => ({ answers: [text, answers[1]] })),
      field("with the answer", answers[1], (text) => ({ answers: [answers[0], text] })),
    );
    return [group, fields, notes(more), refused && note(refused)];
  }

  /** @param {number} k of a kind @param {Patching} value */
  drawMap(k, value) {
    const kind = KINDS[k],
      { fractions, means, bands, out } = value[kind],
      [there, here] = value.tokens,
      isState = kind === "state",
      columns = here.map((token, i) => (token === there[i] ? token : `${there[i]} → ${token}`));
    this.maps[kind].draw({
      rows: fractions.map((_, i) => levelName(i + Number(!isState))),
      hasNames: true,
      columns: isState ? columns : fractions[0].map((_, i) => `${i + 1}`),
      values: fractions.flat(),
      level,
      measure: "Comes back",
      ticks: [-1, -0.1, 0, 0.1, 0.5, 1],
      letters: 18,
      label: isState ? "What the state of each token in each layer brings back" : "What each head brings back",
      axes: isState ? "States: a row is a layer, a column a token." : "Heads: a row is a layer, a column a head.",
      hint: "Press a cell to carry its state.",
      outlined: (i, j) => out[i][j],
      describe: (i, j) => [
        carriedName(kind, [i, j], columns[j]),
        `: ${fixed(fractions[i][j])} comes back; random sentences: ${fixed(means[i][j])} ± ${fixed(bands[i][j])}`,
      ],
      here: question.carried?.[0] === k ? question.carried.slice(1) : null,
      press: (i, j) => {
        ask({ carried: [k, i, j] });
        bringIn(this.passes);
      },
    });
  }

  /** The passes of both texts, and that with the carried state. @param {Patching} value */
  table({ words: [other, word], answers, both, tokens, ...value }) {
    const [k, layer, index] = question.carried ?? [0, -1, -1],
      kind = KINDS[Math.min(k, 1)],
      fraction = value[kind].fractions[layer]?.[index],
      name = carriedName(kind, [layer, index], tokens[0][index]);
    const row = (name, [a, b], fraction) => [
      name,
      fixed(fraction),
      percent(Math.exp(a)),
      percent(Math.exp(b)),
      fixed(a - b),
    ];
    const rows = [row(["With ", el("bdi", other)], both[0], 1), row(["With ", el("bdi", word)], both[1], 0)],
      titles = ["Pass", "Comes back", ...answers.map((answer) => el("bdi", answer)), "Difference of logits"];
    if (fraction !== undefined)
      rows.push(row(["With ", el("bdi", word), ", and carried: ", name], value[kind].answers[layer][index], fraction));
    return scrolling("Both passes", table(titles, rows, { class: "b-table is-narrow" }));
  }
}

/** @type {View} */
export const view = (root, context) => draws(new PatchByHand(root, context));
