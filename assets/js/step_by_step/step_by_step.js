// Step by step: one stage at a time, with its picture, its shapes, its formula with numbers, and Python for it.

import "../attention/asked_heads.js";
import { attend, floats, summed, unfolded, weighted } from "../parts/row.js";
import { change } from "../attention/heads.js";
import { level } from "../colours.js";
import { bar, disable, el, note, roam } from "../parts/elements.js";
import { heatMap } from "../parts/heat_map.js";
import { number, percent } from "../parts/numbers.js";
import { latest, on, orError, visitor } from "../frame/page.js";
import { ask, question } from "../frame/question.js";
import { strips } from "./strips.js";

/**
 * @typedef {object} Steps See steps_value in ui/step_by_step/tab.py.
 * @property {string[]} tokens
 * @property {number[]} ids
 * @property {number[]} segments
 * @property {number} layers
 * @property {number} heads
 * @property {[number, number]} head
 * @property {number} token
 * @property {number} eps
 * @property {string} activation
 * @property {Record<string, string>} vectors
 * @property {{position: number, answer: string, hidden: boolean, size: number, rank: number, top: [string, number, number][], ids: number[],
 *   loss: number, chance: number, by_layer: number[], best: [string, number][], total: number | null} | null} words
 * @property {{logits: number[], probabilities: number[]} | null} pair
 * @property {[string, string]} labels
 * @property {{answer: string | null, probability: number | null, is_next: number | null} | null} before
 * @property {string[]} parts
 * @property {[number, number][]} off
 * @property {[number, number][]} zeroed
 * @property {Record<string, string>} code
 * @property {string[]} notes
 * @property {string} [error]
 */

/** @type {View} */
export function view(root, { options, server }) {
  /** @type {{key: string, title: string, text: string}[]} */
  const stages = options.stages;
  /** @type {Steps} */
  let value;
  /** @type {Record<string, Float32Array>} */
  let vectors = {};
  let drawn = "";
  let presses = 0; // on numbers; another stage or answer counts too, since it closes what a press opened

  const stageButtons = stages.map(({ key, title }, index) => {
    const button = el("button", { class: "b-small" }, `${index + 1} ${title}`);
    button.addEventListener("click", () => ask({ stage: key }));
    return button;
  });
  const row = el(
    "div",
    {
      class: "b-tools",
      role: "group",
      "aria-label": "Stages; the arrow keys go from one to the next",
      "data-no-picture": "",
    },
    ...stageButtons,
  );
  roam(row);
  row.addEventListener("keydown", ({ key }) => {
    if (/^Arrow|^Home|^End/.test(key) && document.activeElement instanceof HTMLButtonElement)
      document.activeElement.click();
  });
  const [back, next] = [
    ["‹ Back", -1],
    ["Next ›", 1],
  ].map(([text, by]) => {
    const button = el("button", { class: "b-small-button" }, `${text}`);
    button.addEventListener("click", () => ask({ stage: stages[at() + Number(by)].key }));
    return button;
  });
  const layer = el("select", { "aria-label": "Layer" }),
    head = el("select", { "aria-label": "Head" });
  for (const select of [layer, head])
    select.addEventListener("change", () => change({ picked: [Number(layer.value), Number(head.value)] }));
  const tokens = el("div", { class: "b-tools", role: "group", "aria-label": "The token that is followed" });
  const title = el("h3", {}),
    opened = el("div", { "aria-live": "polite" }),
    text = el("p", {}),
    body = el("div", { class: "b-stage" });
  const code = el("pre", { tabindex: "0", role: "region", "aria-label": "Python for this stage" }),
    answer = el("p", { "aria-live": "polite" });
  const tools = el(
    "div",
    { class: "b-tools", "data-no-picture": "" },
    back,
    next,
    el("label", {}, "Layer ", layer),
    el("label", {}, "Head ", head),
  );
  const notes = el("div", {}),
    python = el("details", { "data-no-picture": "" }, el("summary", {}, "Python for this stage"), code);
  on("question", ({ changed }) => {
    if (changed.has("stage") && tools.isConnected) show();
  });

  const at = () =>
    Math.max(
      0,
      stages.findIndex(({ key }) => key === question.stage),
    );
  const name = () => value.tokens[value.token];

  /** A readout and what stands above it. @param {(readout: HTMLElement) => HTMLElement} picture */
  function withReadout(picture) {
    const readout = el("p", { class: "b-readout", "aria-live": "polite" });
    return el("div", {}, picture(readout), readout);
  }

  /**
   * Strips of vectors of the same length.
   * @param {[label: string, vector: string][]} named @param {(index: number, of: (vector: string) => number) => string} describe
   * @param {...string} products vectors whose numbers are sums of products, which a press opens
   */
  function vectorsOf(named, describe, ...products) {
    return withReadout((readout) => {
      const picture = strips(readout, (index) => {
        if (products[0]) open(products, index, undefined).catch(console.warn);
      });
      const list = named.map(([label, vector]) => /** @type {[string, Float32Array]} */ ([label, vectors[vector]]));
      // The width is known once the picture is on the page.
      queueMicrotask(() =>
        picture.draw({
          label: title.textContent ?? "",
          strips: list,
          describe: (index) => describe(index, (vector) => vectors[vector][index]),
        }),
      );
      return picture.element;
    });
  }

  /** Show what numbers come from. @param {string[]} names of vectors @param {number} index @param {string} [word] */
  const open = latest(
    async (/** @type {string[]} */ names, /** @type {number} */ index, /** @type {string | undefined} */ word) => {
      const asked = { ...question, hidden: question.hidden ?? [] },
        press = (presses += 1);
      const found = await Promise.all(names.map((each) => orError(server.inputs(visitor.token, asked, each, index))));
      if (press !== presses) return;
      opened.replaceChildren(
        ...found.map(({ inputs, weights, bias, error }, k) =>
          error ? note(error, true) : summed(word ?? `${names[k]}[${index}]`, floats(inputs), floats(weights), bias),
        ),
      );
    },
  );

  /** A LayerNorm with the numbers of one cell. @param {string} input @param {string} norm @param {string} output @param {number} index */
  function normed(input, norm, output, index) {
    const all = Array.from(vectors[input]),
      mean = all.reduce((sum, each) => sum + each, 0) / all.length;
    const deviation = Math.sqrt(all.reduce((sum, each) => sum + (each - mean) ** 2, 0) / all.length + value.eps);
    return (
      `LayerNorm: (x − mean) ÷ √(variance + ε) × gain + bias = (${number(all[index])} − ${number(mean)}) ÷ ${number(deviation)}` +
      ` × ${number(vectors[`${norm}Gain`][index])} + ${number(vectors[`${norm}Bias`][index])} = ${number(vectors[output][index])}`
    );
  }

  /** The map of scores or weights of the head. @param {boolean} isWeights */
  function map(isWeights) {
    const n = value.tokens.length,
      d = vectors.query.length / n,
      second = value.segments.indexOf(1);
    const rows = value.tokens.map((_, i) => attend(vectors.query.subarray(i * d, (i + 1) * d), vectors.key));
    const values = rows.flatMap(({ scores, weights }) => (isWeights ? weights : scores));
    const most = isWeights ? 1 : Math.max(...values.map(Math.abs)),
      round = Number(most.toFixed(1)),
      cell = el("div", {});
    const open = (/** @type {number} */ i, /** @type {number} */ j) =>
      cell.replaceChildren(
        unfolded({ tokens: value.tokens, query: vectors.query, key: vectors.key, value: vectors.value }, i, j),
      );
    const picture = withReadout((readout) => {
      const heat = heatMap(readout);
      heat.draw({
        rows: value.tokens,
        columns: value.tokens,
        values,
        level: (each) => level(each / most),
        room: body.clientWidth || 320,
        measure: isWeights ? "Weight" : "Score",
        ...(isWeights ? {} : { ticks: [-round, 0, round] }),
        border: second > 0 ? [second, second] : null,
        label: `${title.textContent}, ${n} × ${n}; the arrow keys go from cell to cell, Enter unfolds one`,
        press: open,
        hint: "A row is the token that attends, a column the token it attends to; point at a cell for its formula, click it to unfold it.",
        describe: (i, j) => [
          el("bdi", {}, value.tokens[i]),
          " → ",
          el("bdi", {}, value.tokens[j]),
          isWeights
            ? `: e^(${number(rows[i].scores[j])} − ${number(rows[i].largest)}) ÷ ${number(rows[i].total)} = ${number(rows[i].weights[j])}`
            : `: query · key = ${number(rows[i].sums[j])}; ÷ √${d} = ${number(rows[i].scores[j])}`,
        ],
      });
      return heat.element;
    });
    return [picture, cell];
  }

  /** Buttons that set parts to zero. @param {[name: string, list: "off" | "zeroed", part: [number, number]][]} parts */
  function switches(...parts) {
    return el(
      "div",
      { class: "b-tools", "data-no-picture": "" },
      el("span", {}, "Set to zero:"),
      ...parts.map(([label, list, part]) => {
        const same = (/** @type {[number, number]} */ each) => `${each}` === `${part}`,
          isOff = value[list].some(same);
        const button = el("button", { class: "b-small", "aria-pressed": isOff }, label);
        button.addEventListener("click", () =>
          ask({ [list]: isOff ? value[list].filter((each) => !same(each)) : [...value[list], part] }),
        );
        return button;
      }),
    );
  }

  /** Rows of a name, a bar and numbers. @param {string} label @param {string[]} columns @param {[string, number, ...string[]][]} rows @param {(row: number) => void} [press] */
  function list(label, columns, rows, press) {
    const cell = (/** @type {string} */ word, /** @type {number} */ at) => {
      const name = el("bdi", {}, word),
        button = el("button", { class: "b-path" }, name);
      button.addEventListener("click", () => press?.(at));
      return press ? button : name;
    };
    return el(
      "div",
      { class: "b-scroll", tabindex: "0", role: "region", "aria-label": label },
      el(
        "table",
        { class: "b-lens" },
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...columns.map((each, i) => el("th", { scope: "col", class: i ? "b-number" : null }, each)),
            el("td", {}),
          ),
        ),
        el(
          "tbody",
          {},
          ...rows.map(([word, share, ...cells], at) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, cell(word, at)),
              ...cells.map((each) => el("td", { class: "b-number" }, each)),
              el("td", {}, bar(share, "mlm")),
            ),
          ),
        ),
      ),
    );
  }

  /** What each stage shows, after its shapes. @type {Record<string, () => [shape: string, ...parts: HTMLElement[]]>} */
  const draws = {
    pieces: () => [
      `${value.tokens.length} tokens`,
      el(
        "div",
        { class: "b-scroll", tabindex: "0", role: "region", "aria-label": "Pieces" },
        el(
          "table",
          { class: "b-lens" },
          ...[
            ["Piece", value.tokens],
            ["Id", value.ids],
            ["Position", value.tokens.map((_, i) => i)],
            ["Segment", value.segments],
          ].map(([label, cells]) =>
            el(
              "tr",
              {},
              el("th", { scope: "row" }, `${label}`),
              .../** @type {any[]} */ (cells).map((cell) => el("td", {}, el("bdi", {}, `${cell}`))),
            ),
          ),
        ),
      ),
    ],
    embeddings: () => [
      `${vectors.word.length} numbers for each token`,
      vectorsOf(
        [
          [`Word ${name()}`, "word"],
          [`Position ${value.token}`, "position"],
          [`Segment ${value.segments[value.token]}`, "segment"],
          ["Sum", "sum"],
          ["LayerNorm", "embedded"],
        ],
        (i, of) =>
          `${number(of("word"))} + ${number(of("position"))} + ${number(of("segment"))} = ${number(of("sum"))}. ${normed("sum", "embeddings", "embedded", i)}`,
      ),
    ],
    projections: () => {
      const d = vectors.context.length,
        D = vectors.input.length,
        own = ["query", "key", "value"];
      for (const each of own) vectors[`own_${each}`] = vectors[each].subarray(value.token * d, (value.token + 1) * d);
      return [
        `${D} numbers become 3 × ${d}`,
        vectorsOf([["Input of the layer", "input"]], (i) => `x[${i}] = ${number(vectors.input[i])}`),
        vectorsOf(
          own.map((each) => [`${each[0].toUpperCase()}${each.slice(1)}`, `own_${each}`]),
          (i, of) =>
            own.map((each) => `${each}[${i}] = x · W[:, ${i}] + b[${i}] = ${number(of(`own_${each}`))}`).join("; ") +
            `: sums of ${D} products each`,
          ...own,
        ),
      ];
    },
    scores: () => [`${value.tokens.length} × ${value.tokens.length} scores in each head`, ...map(false)],
    weights: () => [`${value.tokens.length} × ${value.tokens.length} weights in each head`, ...map(true)],
    context: () => {
      const d = vectors.context.length,
        { weights } = attend(vectors.query.subarray(value.token * d, (value.token + 1) * d), vectors.key);
      const largest = weights
          .map((weight, j) => [weight, j])
          .sort(([a], [b]) => b - a)
          .slice(0, 6),
        rest = weights.length - largest.length;
      for (const [, j] of largest) vectors[`value_${j}`] = vectors.value.subarray(j * d, (j + 1) * d);
      const sum = weighted(weights, vectors.value, d);
      return [
        `${value.tokens.length} × ${d} values become ${d} numbers`,
        vectorsOf(
          [
            ...largest.map(
              ([weight, j]) =>
                /** @type {[string, string]} */ ([`${number(weight)} × value of ${value.tokens[j]}`, `value_${j}`]),
            ),
            ["Weighted sum", "context"],
          ],
          (i, of) =>
            `${largest.map(([weight, j]) => `${number(weight)} × ${number(of(`value_${j}`))}`).join(" + ")}${rest ? ` + ${rest} more` : ""} = ${number(sum[i])}` +
            (value.off.some((each) => `${each}` === `${value.head}`) ? ", set to 0" : ""),
        ),
        switches([`Head ${value.head[1] + 1}`, "off", value.head]),
      ];
    },
    joined: () => {
      const D = vectors.joined.length,
        d = D / value.heads,
        l = value.head[0];
      return [
        `${value.heads} heads × ${d} = ${D} numbers`,
        vectorsOf(
          [
            ["Heads joined", "joined"],
            ["Projection", "projected"],
            ["Residual: input of the layer", "input"],
            ["Sum", "attention_sum"],
            ["LayerNorm", "attended"],
          ],
          (i, of) =>
            `Number ${i % d} of head ${Math.floor(i / d) + 1}: ${number(of("joined"))}. Projection: joined · W[:, ${i}] + b[${i}] = ${number(of("projected"))}. ` +
            `Sum: ${number(of("input"))} + ${number(of("projected"))} = ${number(of("attention_sum"))}. ${normed("attention_sum", "attention", "attended", i)}`,
          "projected",
        ),
        switches(
          [`Head ${value.head[1] + 1}`, "off", value.head],
          ["Attention", "zeroed", [l, 0]],
          ["Residual", "zeroed", [l, 1]],
        ),
      ];
    },
    "feed-forward": () => {
      const D = vectors.fed.length,
        l = value.head[0],
        f = value.activation.toUpperCase();
      return [
        `${D} numbers become ${vectors.inner.length}, and ${D} again`,
        vectorsOf(
          [
            ["Widened", "inner"],
            [f, "activated"],
          ],
          (i, of) =>
            `attended · W[:, ${i}] + b[${i}] = ${number(of("inner"))}; ${f}(x) = ${f === "GELU" ? "x × Φ(x), with Φ of the normal distribution," : "max(0, x)"} = ${number(of("activated"))}`,
          "inner",
        ),
        vectorsOf(
          [
            ["Residual: after the attention", "attended"],
            ["Narrowed", "fed"],
            ["Sum", "output_sum"],
            ["LayerNorm", "output"],
          ],
          (i, of) =>
            `Sum: ${number(of("attended"))} + ${number(of("fed"))} = ${number(of("output_sum"))}. ${normed("output_sum", "output", "output", i)}`,
          "fed",
        ),
        switches(["Feed-forward", "zeroed", [l, 2]], ["Residual", "zeroed", [l, 3]]),
      ];
    },
    layers: () => {
      const words = value.words?.position === value.token ? value.words : null,
        named = Array.from({ length: value.layers + 1 }, (_, l) => `after${l}`);
      const label = (/** @type {number} */ l) =>
        (l ? `Layer ${l}` : "Embeddings") + (words ? `: ${words.answer} ${percent(words.by_layer[l])}` : "");
      return [
        `${value.layers + 1} × ${vectors.after0.length} numbers`,
        vectorsOf(
          named.map((each, l) => [label(l), each]),
          (i, of) => named.map((each, l) => `${l ? `Layer ${l}` : "Embeddings"} ${number(of(each))}`).join("; "),
        ),
      ];
    },
    "scores-of-words": () => {
      const { words } = value;
      if (!words) return ["", note(options.missing[+!value.tokens.includes("[MASK]")])];
      const logits = words.top.map(([, logit]) => logit),
        least = Math.min(...logits),
        most = Math.max(...logits);
      return [
        `${vectors.last.length} numbers become ${words.size} scores`,
        vectorsOf(
          [
            ["Vector at [MASK]", "last"],
            ["Matrix", "word_dense"],
            [value.activation.toUpperCase(), "word_activated"],
            ["LayerNorm", "word_transformed"],
          ],
          (i, of) =>
            `last · W[:, ${i}] + b[${i}] = ${number(of("word_dense"))}; ${value.activation.toUpperCase()} = ${number(of("word_activated"))}. ` +
            normed("word_activated", "transform", "word_transformed", i),
          "word_dense",
        ),
        list(
          "Scores",
          ["Word", "Score"],
          words.top.map(([word, logit]) => [
            word,
            0.05 + (0.95 * (logit - least)) / (most - least || 1),
            number(logit),
          ]),
          (at) => open(["logits"], words.ids[at], `Score of ${words.top[at][0]}`).catch(console.warn),
        ),
        el(
          "p",
          { class: "b-empty" },
          `The ${words.top.length} shown of ${words.size} words. Click one to see its products.`,
        ),
      ];
    },
    probabilities: () => {
      const { words } = value;
      if (!words) return ["", note(options.missing[+!value.tokens.includes("[MASK]")])];
      const p = Math.exp(-words.loss),
        shown = words.top.reduce((sum, [, , each]) => sum + each, 0);
      return [
        `${words.size} scores become ${words.size} probabilities`,
        list(
          "Probabilities",
          ["Word", "Score", "e^score", "Probability"],
          words.top.map(([word, logit, each]) => [
            word,
            each,
            number(logit),
            Math.exp(logit).toPrecision(6),
            number(each),
          ]),
        ),
        el(
          "p",
          {},
          `e^score ÷ the sum of e^score over all ${words.size} words${words.total === null ? "" : ` (${words.total.toPrecision(6)})`}. The other ${words.size - words.top.length} words together: ${number(Math.max(0, 1 - shown))}.`,
        ),
        el(
          "p",
          {},
          words.hidden ? "The hidden word is " : "The likeliest word is ",
          el("bdi", { class: "b-hidden-word" }, words.answer),
          `, rank ${words.rank}. Loss = −ln ${number(p)} = ${number(words.loss)}; without knowledge ln ${words.size} = ${number(words.chance)}.`,
        ),
      ];
    },
    "next-sentence": () => {
      const { pair, labels } = value;
      if (!pair) return ["", note(options.missing[0])];
      const [a, b] = pair.logits;
      return [
        `${vectors.first.length} numbers become 2`,
        vectorsOf(
          [
            ["Vector at [CLS]", "first"],
            ["Pooler", "pooled"],
          ],
          (i, of) => `tanh(first · W[:, ${i}] + b[${i}]) = ${number(of("pooled"))}`,
          "pooled",
        ),
        list(
          "Next sentence",
          ["Answer", "Score", "Probability"],
          labels.map((each, i) => [each, pair.probabilities[i], number(pair.logits[i]), number(pair.probabilities[i])]),
        ),
        el(
          "p",
          {},
          `P(${labels[0]}) = e^${number(a)} ÷ (e^${number(a)} + e^${number(b)}) = ${number(pair.probabilities[0])}`,
        ),
      ];
    },
  };

  /** The answers, and those of the whole model beside them. */
  function answers() {
    const { words, pair, before, labels } = value,
      list = [];
    const beside = (/** @type {number | null | undefined} */ was) =>
      before && typeof was === "number" ? ` (the whole model: ${percent(was)})` : "";
    // A typed [MASK] has no word of its own: the whole model may guess another one.
    if (words)
      list.push(
        `${words.answer}: ${percent(Math.exp(-words.loss))}${beside(before?.answer === words.answer ? before.probability : null)}`,
      );
    if (pair && value.segments.includes(1))
      list.push(`${labels[0]}: ${percent(pair.probabilities[0])}${beside(before?.is_next)}`);
    return list.length ? `The answer. ${list.join("; ")}.` : "";
  }

  function show() {
    const now = at(),
      { key, title: heading, text: words } = stages[now],
      isSame = drawn === JSON.stringify([key, value.tokens]);
    const stops = () => [...body.querySelectorAll("button, [tabindex]")];
    const focused = isSame && document.activeElement ? stops().indexOf(document.activeElement) : -1;
    stageButtons.forEach((button, i) => {
      button.setAttribute("aria-current", i === now ? "step" : "false");
      button.tabIndex = i === now ? 0 : -1;
    });
    disable(back, now === 0 && "This is the first stage.");
    disable(next, now === stages.length - 1 && "This is the last stage.");
    const inHead = ["projections", "scores", "weights", "context"].includes(key),
      inLayer = inHead || ["joined", "feed-forward"].includes(key);
    title.textContent = `${now + 1} ${heading}${inLayer ? `: layer ${value.head[0] + 1}` : ""}${inHead ? `, head ${value.head[1] + 1}` : ""}`;
    text.textContent = words;
    const [shape, ...parts] = draws[key]();
    body.replaceChildren(el("p", { class: "b-empty" }, shape), ...parts);
    presses += 1;
    opened.replaceChildren();
    drawn = JSON.stringify([key, value.tokens]);
    if (focused >= 0) /** @type {HTMLElement | undefined} */ (stops()[focused])?.focus();
    code.textContent = value.code[key];
    answer.textContent = answers();
  }

  /** @param {HTMLSelectElement} select @param {number} count @param {number} chosen */
  function fill(select, count, chosen) {
    if (select.length !== count)
      select.replaceChildren(...Array.from({ length: count }, (_, i) => el("option", { value: i }, `${i + 1}`)));
    select.value = `${chosen}`;
  }

  return function draw(/** @type {Steps | null} */ next) {
    if (!next?.tokens) {
      root.replaceChildren(...(next?.error ? [note(next.error, true)] : []));
      return;
    }
    value = next;
    vectors = Object.fromEntries(Object.entries(next.vectors).map(([each, packed]) => [each, floats(packed)]));
    fill(layer, value.layers, value.head[0]);
    fill(head, value.heads, value.head[1]);
    if (tokens.dataset.tokens !== `${value.tokens}`) {
      tokens.replaceChildren(
        ...value.tokens.map((token, index) => {
          const button = el("button", { class: "b-small" }, el("bdi", {}, token));
          button.addEventListener("click", () => ask({ token: index }));
          return button;
        }),
      );
      tokens.dataset.tokens = `${value.tokens}`;
      roam(tokens);
    }
    [...tokens.children].forEach((button, index) => button.setAttribute("aria-pressed", `${index === value.token}`));
    if (!row.isConnected) root.replaceChildren(row, tools, tokens, title, text, body, opened, answer, python, notes);
    notes.replaceChildren(...value.notes.map((each) => note(each)));
    show();
  };
}
