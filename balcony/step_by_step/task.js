// The last stage of a fine-tuned model: its task's own layer in numbers, and the answer that they make.

import { row, scrolling, table } from "../controls.js";
import { bar, button, code, el, tools } from "../parts/elements.js";
import { number, percent, precise } from "../parts/numbers.js";
import { ask } from "../frame/question.js";
import { listed, pooled, vectorsOf } from "./stages.js";

/** @import { Child } from "../parts/elements.js" */
/** @import { Listed, Shown, Task } from "./stages.js" */

/** The numbers of the labels, the likeliest first. @param {ArrayLike<number>} shares */
const likeliest = (shares) => Array.from(shares, (_, i) => i).sort((a, b) => shares[b] - shares[a]);

/** One answer from the vector at [CLS]: labels, choices or a number. @param {Shown} shown @param {Task} task @returns {[string, ...Child[]]} */
function ofRow(shown, { labels, rows, row: at, number: found }) {
  const { vectors, open, value } = shown,
    { task: logits, task_probability: shares } = vectors,
    D = vectors.pooled.length;
  if (found !== null) {
    const press = button(number(found), () => open(["task"], 0, "The number"));
    const hint = el("p.b-empty", "Click the number to see the products that it is the sum of.");
    return [`${D} numbers become 1`, pooled(shown), el("p", code("pooled · W[:, 0] + b[0] = "), press), hint];
  }
  const order = likeliest(shares),
    total = logits.reduce((sum, logit) => sum + Math.exp(logit), 0),
    isChoice = value.has_choices;
  const lines = order.map((i) => {
    const press = isChoice ? () => ask({ row: i }) : () => open(["task"], i, `Score of ${labels[i]}`),
      name = button(el("bdi", labels[i]), press, { class: "b-path", "aria-pressed": isChoice ? i === at : null });
    return /** @type {Listed} */ ([
      name,
      shares[i],
      number(logits[i]),
      Math.exp(logits[i]).toPrecision(6),
      precise(shares[i]),
    ]);
  });
  const products = () => open(["task"], 0, `Score of ${labels[at]}`);
  return [
    isChoice ? `${rows} × ${D} numbers become ${rows}` : `${D} numbers become ${labels.length}`,
    pooled(shown),
    listed("Scores", [isChoice ? "Choice" : "Label", "Score", "e^score", "Probability"], lines),
    el("p", `Probability: e^score ÷ the sum of e^score over all ${labels.length}, ${total.toPrecision(6)}.`),
    isChoice
      ? tools(el("span", "Click a choice to follow its row."), button("Products of this row's score", products))
      : el("p.b-empty", "Click a label to see the products of its score."),
  ];
}

/** A table of the scores of each token. @param {Shown} shown @param {Task} task */
function scores({ value, vectors, open }, { labels, why, name }) {
  const { tokens, token } = value,
    { task: logits, task_probability: shares } = vectors,
    L = labels.length,
    isTags = name === "token-classification",
    columns = [...labels.keys()];
  const lines = tokens.map((each, i) => {
    const of = (/** @type {number} */ j) => i * L + j,
      [best] = likeliest(shares.subarray(of(0), of(L))),
      products = (/** @type {number} */ j) => open(["task"], of(j), isTags ? `Score of ${labels[j]}` : labels[j]);
    const cells = columns.map((j) => {
      const text = number(logits[of(j)]);
      return i === token ? button(text, () => products(j)) : text;
    });
    const follow = button(el("bdi", each), () => ask({ token: i }), { class: "b-path", "aria-pressed": i === token }),
      shown = isTags
        ? [...cells, el("bdi", labels[best]), percent(shares[of(best)]), bar(shares[of(best)], "mlm")]
        : columns.flatMap((j, k) => [cells[k], percent(shares[of(j)])]);
    return row([follow, ...shown, el("td.b-why", why[i])], why[i] ? { class: "is-not-asked" } : {});
  });
  const names = isTags
    ? [...columns.map((j) => el("bdi", labels[j])), "Tag", "Probability", ""]
    : labels.flatMap((side) => [side, "%"]);
  const box = scrolling("Scores", table(["Token", ...names, ""], lines, { class: "b-table is-whole" }));
  requestAnimationFrame(() => {
    box.scrollTop = lines[token].offsetTop - box.clientHeight / 2; // the followed token is in sight
  });
  return box;
}

/** A long text without its middle. @param {string} text */
const brief = (text) => el("bdi", { title: text }, text.replace(/^(.{20}).{4,}(.{12})$/su, "$1…$2"));

/** The answers, and the best starts and ends of the followed row with those that are none. @param {Shown} shown @param {Task} task */
function ends({ value: { tokens } }, { pairs, answers, rows, longest }) {
  const lines = pairs.map(({ start, end, text, score, probability, why }) => {
    const places = [start, end].map((at) => [el("bdi", tokens[at]), ` ${at}`]),
      last = probability === null ? "" : precise(probability),
      said = el("td.b-why", text && brief(text), text && why && ": ", why);
    return row([...places, said, number(score), last], why ? { class: "is-not-asked" } : {}, 3);
  });
  const found = answers.map(([text, share]) => /** @type {Listed} */ ([brief(text), share, precise(share)])),
    names = ["Start token", "End token", "Answer, or why it is none", "Score", "Probability"],
    said = `Starts and ends of this row in pairs. An answer has at most ${longest} tokens; its score is the sum of both.`;
  return el(
    "div",
    el("h4", "The answers"),
    el("p", `Softmax over the scores of the best answers of all rows (${rows}).`),
    listed("The answers", ["Answer", "Probability"], found),
    el("h4", "The best starts and ends"),
    el("p", said),
    scrolling("The best starts and ends", table(names, lines, { class: "b-table is-whole", numbers: 3 })),
  );
}

/** An answer at each token. @param {Shown} shown @param {Task} task @returns {[string, ...Child[]]} */
function ofTokens(shown, task) {
  const { tokens, token, layers } = shown.value,
    last = `after${layers}`,
    T = tokens.length,
    D = shown.vectors[last].length,
    own = el("div", scores(shown, task));
  return [
    `${T} × ${D} numbers become ${T} × ${task.labels.length}`,
    vectorsOf(shown, [[last, `Last vector of ${tokens[token]}`]]),
    el("p.b-empty", "Click a token to follow it, and a number of the followed one to see its products."),
    task.pairs.length ? el("div.b-beside", own, ends(shown, task)) : own,
  ];
}

/** @param {Shown} shown @returns {[shape: string, ...parts: Child[]]} */
export function taskStage(shown) {
  const task = /** @type {Task} */ (shown.value.task);
  return task.is_of_tokens ? ofTokens(shown, task) : ofRow(shown, task);
}
