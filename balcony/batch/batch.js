// The batch of a step: pairs as the model was given them, and the model's guess for each asked word.
// The view follows the selected step; drawing other masks holds the step until a person selects another one.
// Kinds of tokens do not differ by colour alone: each has its own border, and asked words name their kind.

import { button, direction, disable, el, fill, tools } from "../parts/elements.js";
import { count, percent } from "../parts/numbers.js";
import { on } from "../frame/page.js";
import { question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { asking } from "../views.js";
import { scrolling, table } from "../controls.js";

const OWN_MASKS = "The words that were asked in this step";
const GATHERED = [
  "dim 0: output[i][j][k] = input[index[i][j][k]][j][k]",
  "dim 1: output[i][j][k] = input[i][index[i][j][k]][k]",
  "dim 2: output[i][j][k] = input[i][j][index[i][j][k]]",
];
const SAMPLES = { masked: "[MASK]", special: "[CLS]", padding: "[PAD]" };

/** What no language translates. @param {string} text */
const code = (text) => el("code", { translate: "no" }, text);

/** A token; an asked word with its kind, the true word, the guess and the loss. @param {any} row @param {number} at @param {number} end */
function token({ tokens, kinds, guesses }, at, end) {
  const kind = kinds[at],
    guess = guesses[at],
    likely = guess && ` ${percent(guess.probability)}`;
  return el(
    `li.b-token.is-${kind}`,
    { title: kind },
    el("bdi.b-token-shown", kind === "padding" ? `${tokens[at]} × ${end - at}` : tokens[at]),
    guess && [
      el("small.b-token-kind", kind),
      el("small", "true: ", el("bdi", guess.label)),
      guess.is_right
        ? el("small", "✓ ", el("bdi", guess.token), likely)
        : el("small.b-wrong", "✗ ", el("bdi", guess.token), likely),
      el("small", `loss ${guess.loss.toFixed(2)}`),
    ],
  );
}

/** Tokens of one kind of segment. @param {any} row @param {string} name @param {number} from @param {number} to @param {string} segment */
function line(row, name, from, to, segment) {
  const length = segment === "padding" ? 1 : to - from,
    tokens = Array.from({ length }, (_, k) => token(row, from + k, to)),
    dir = direction(row.tokens.slice(from, to)),
    list = el("ol", { "aria-label": name ? `${name}, ${segment}` : segment, dir }, tokens);
  return el("div.b-segment", el("span.b-segment-name", { title: segment }, name), list);
}

/** What the text says about a pair. @param {boolean | null} isNext null: it is not asked @param {string} label */
function truth(isNext, label) {
  if (isNext === null) return "it is not asked whether B follows A";
  if (label !== "IsNext") return isNext ? label : `not ${label}`;
  return isNext ? "B follows A (IsNext)" : "B is from elsewhere (NotNext)";
}

/** @param {any} row @param {number} number @param {string} label */
function pair(row, number, label) {
  const { tokens, kinds, segments, is_next: isNext, is_next_probability: likely } = row,
    padding = kinds.indexOf("padding"),
    end = padding < 0 ? tokens.length : padding,
    hasB = segments.includes(1), // without next sentence prediction, a sentence may stand alone
    second = hasB ? segments.indexOf(1) : end,
    isRight = likely >= 0.5 === isNext,
    probability = percent(isNext ? likely : 1 - likely);
  const judged = el(
      isRight ? "span" : "span.b-wrong",
      `${isRight ? "✓" : "✗"} the model's probability: ${probability}`,
    ),
    title = `Pair ${number}: ${hasB ? truth(isNext, label) : "A alone, without B"}. `;
  return el(
    "section.b-pair",
    el("h4", title, isNext !== null && judged),
    line(row, "A", 0, second, "segment 0"),
    hasB && line(row, "B", second, end, "segment 1"),
    padding >= 0 && line(row, "", end, tokens.length, "padding"),
  );
}

/** @param {[kind: string, text: string][]} entries */
function legend(entries) {
  const lines = entries.map(([kind, text]) =>
    el("div", el(`dt.b-token.is-${kind}`, SAMPLES[kind] ?? "word"), el("dd", el("strong", kind), ": ", text)),
  );
  return el("dl.b-batch-legend", lines);
}

/** The tensors of the batch, and where the asked words of the shown pairs are among all positions. @param {any} value */
function gathered({ rows, first, length, shapes }) {
  const asked = rows.flatMap(({ number, guesses }, k) =>
    Object.entries(guesses).map(([at, { label }], j) => [
      `Pair ${first + k + 1}`,
      `${number}`,
      at,
      `${number} × ${length} + ${at} = ${number * length + Number(at)}`,
      code(`output[${number}][${j}][k] = vectors[${number}][${at}][k]`),
      el("bdi", label),
    ]),
  );
  const named = shapes.map(([name, ...cells]) => [el("code", name), ...cells]);
  return [
    scrolling("Shapes of the batch", table(["Tensor", "Shape", "Size", "What it has"], named, { numbers: 4 })),
    el("p", "Position t of the pair in row b of the batch has the number b × T + t. For the pairs above:"),
    scrolling(
      "Asked positions",
      table(["", "Row b", "Position t", "Number", "By torch.gather", "Asked word"], asked, { numbers: 6 }),
    ),
    el(
      "p",
      "torch.gather copies the same vectors out of a tensor (B, T, D). Of its three rules, that for dim 1 is used:",
    ),
    GATHERED.map((rule) => el("p", code(rule))),
  ];
}

function summary({ rows, right, step, again }) {
  const guesses = rows.flatMap((row) => Object.values(row.guesses)),
    known = guesses.filter((guess) => guess.is_right).length,
    kinds = right.map(([kind, some, all]) => `${kind} ${some} of ${all}`).join(", "),
    loss = guesses.reduce((sum, guess) => sum + guess.loss, 0) / guesses.length;
  const before = step
    ? `Batch of step ${count(step)}, with guesses of the model after the step`
    : "The first batch, with guesses of the untrained model";
  const drawn = again ? `; masks drawn again (${again})` : "";
  const labels = guesses.map(({ label }) => label),
    often = (/** @type {string} */ word) => labels.filter((each) => each === word).length,
    frequent = labels.reduce((one, other) => (often(other) > often(one) ? other : one), labels[0]);
  const asks =
    ` ${known} of ${guesses.length} asked words of these pairs right (${kinds}), mean loss ${loss.toFixed(2)}.` +
    ` Always answering “${frequent}”, the most frequent of them, would be right for ${often(frequent)}.`;
  return `${before}${drawn}.${guesses.length ? asks : ""}`;
}

class Batch {
  /** @type {{step: number} | null} */
  shown = null;
  first = 0;
  again = 0;
  summary = el("p.b-batch-summary");
  range = el("span.b-batch-range");
  pairing = el("p.b-empty");
  pairs = el("div.b-pairs");
  key = el("div");
  shapes = el("div.b-shapes");
  inside = el("details.b-preview-more", el("summary", "Shapes, and how the asked words are gathered"), this.shapes);
  back = button("◀", () => this.page(-1), { id: "batch-back", "aria-label": "Previous pairs" });
  next = button("▶", () => this.page(1), { id: "batch-next", "aria-label": "Next pairs" });
  own = button("The step's own masks", () => this.hold(0), { id: "batch-own" });

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { setValue, options }) {
    this.setValue = setValue;
    this.options = options;
    const hint = "Draw new masks for the same pairs, as a later step would",
      draw = button("Draw again", () => this.hold(this.again + 1), { id: "batch-again", title: hint });
    this.tools = tools(this.back, this.range, this.next, draw, this.own);
    root.append(el("h2", "What does one training step look like?"), el("p.b-empty", options.hint));
    root.append(this.pairing, this.tools, this.summary, this.pairs, this.inside, this.key);
    this.ask = asking(this.pairs, async () => {
      const { again, shown, first } = this,
        step = again && shown ? shown.step : question.step;
      this.paint(await answer("batch", question.model, step, first, again));
    });
    on("question", ({ changed }) => {
      if (changed.has("model") || changed.has("step")) this.again = 0;
      if (["model", "step", "newest", "tab"].some((part) => changed.has(part))) this.follow();
    });
    this.paint({ text: "" });
    this.follow();
  }

  /** Show the selected step, unless its masks were drawn again. */
  follow() {
    if (question.tab === "batch" && !this.again) this.ask();
  }

  /** @param {number} by */
  page(by) {
    this.first = Math.max(0, this.first + by * this.options.pairs);
    this.ask();
  }

  /** @param {number} again how often the masks were drawn */
  hold(again) {
    this.again = again;
    this.ask();
  }

  paint(value) {
    const { rows, label, pairs, step, again } = value,
      { first } = this;
    this.tools.hidden = this.key.hidden = this.inside.hidden = !rows;
    if (!rows) {
      this.shown = null;
      this.summary.textContent = value.text;
      fill(this.pairs);
      return;
    }
    // This run has smaller batches than the one before.
    if (!rows.length && first) {
      this.first = 0;
      this.ask();
      return;
    }
    this.shown = value;
    this.summary.textContent = summary(value);
    this.pairing.textContent = label === "IsNext" ? this.options.pairing : "";
    this.range.textContent = `Pairs ${first + 1} to ${first + rows.length} of ${pairs}`;
    disable(this.back, first === 0 && "These are the first pairs.", "Previous pairs");
    disable(this.next, first + rows.length >= pairs && "These are the last pairs.", "Next pairs");
    disable(this.own, this.again === 0 && "This is the batch of this step.", OWN_MASKS);
    const drawn = rows.map((row, index) => pair(row, value.first + index + 1, label));
    const [masked, replaced, kept, ...others] = value.legend;
    fill(this.pairs, el("div.b-batch-asked", legend([masked, replaced, kept])), drawn);
    fill(this.shapes, gathered(value));
    fill(this.key, legend(others), el("p.b-empty", this.options.why));
    this.setValue({ run: value.run, step, first: value.first, again });
  }
}

/** @type {View} */
export const view = (root, context) => void new Batch(root, context);
