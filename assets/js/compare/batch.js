// The batch of a step: pairs as the model was given them, and the model's guess for each asked word.
// The view follows the selected step; drawing other masks holds the step until a person selects another one.
// Kinds of tokens do not differ by colour alone: each has its own border, and asked words name their kind.

import { direction, disable, el } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { on, visitor } from "../frame/page.js";
import { question } from "../frame/question.js";
import { asking } from "../views.js";

const ASKED = new Set(["masked", "replaced", "kept"]);

function chip(kind, text, ...more) {
  return el("li", { class: `b-token is-${kind}`, title: kind }, el("bdi", { class: "b-token-shown" }, text), ...more);
}

/** An asked word: its kind, the true word, the guess and the loss. */
function guessed(kind, { label, token, probability, loss, is_right: isRight }) {
  return [
    el("small", { class: "b-token-kind" }, kind),
    el("small", {}, "true: ", el("bdi", {}, label)),
    el(
      "small",
      { class: isRight ? null : "b-wrong" },
      isRight ? "✓ " : "✗ ",
      el("bdi", {}, token),
      ` ${percent(probability)}`,
    ),
    el("small", {}, `loss ${loss.toFixed(2)}`),
  ];
}

function words(row, from, to) {
  const items = [];
  for (let i = from; i < to; i += 1) {
    const kind = row.kinds[i];
    if (kind === "padding") {
      items.push(chip(kind, `${row.tokens[i]} × ${to - i}`));
      break;
    }
    items.push(chip(kind, row.tokens[i], ...(ASKED.has(kind) ? guessed(kind, row.guesses[i]) : [])));
  }
  return items;
}

function pair(row, number, label) {
  const padding = row.kinds.indexOf("padding");
  const end = padding < 0 ? row.tokens.length : padding;
  const hasB = row.segments.includes(1); // without next sentence prediction, a sentence may stand alone
  const second = hasB ? row.segments.indexOf(1) : end;
  const follows = label === "IsNext";
  const actual = row.is_next
    ? follows
      ? "B follows A (IsNext)"
      : label
    : follows
      ? "B is from elsewhere (NotNext)"
      : `not ${label}`;
  const isRight = row.is_next_probability >= 0.5 === row.is_next;
  const probability = row.is_next ? row.is_next_probability : 1 - row.is_next_probability;
  const line = (name, [from, to], segment) =>
    el(
      "div",
      { class: "b-segment" },
      el("span", { class: "b-segment-name", title: segment }, name),
      el(
        "ol",
        { "aria-label": name ? `${name}, ${segment}` : segment, dir: direction(row.tokens.slice(from, to)) },
        ...words(row, from, to),
      ),
    );
  return el(
    "section",
    { class: "b-pair" },
    el(
      "h4",
      {},
      `Pair ${number}: ${hasB ? actual : "A alone, without B"}. `,
      ...(hasB
        ? [
            el(
              "span",
              { class: isRight ? null : "b-wrong" },
              `${isRight ? "✓" : "✗"} the model's probability: ${percent(probability)}`,
            ),
          ]
        : []),
    ),
    line("A", [0, second], "segment 0"),
    ...(hasB ? [line("B", [second, end], "segment 1")] : []),
    ...(end < row.tokens.length ? [line("", [end, row.tokens.length], "padding")] : []),
  );
}

function legend(entries) {
  const sample = { masked: "[MASK]", special: "[CLS]", padding: "[PAD]" };
  return el(
    "dl",
    { class: "b-batch-legend" },
    ...entries.map(([kind, text]) =>
      el(
        "div",
        {},
        el("dt", { class: `b-token is-${kind}` }, sample[kind] || "word"),
        el("dd", {}, el("strong", {}, kind), ": ", text),
      ),
    ),
  );
}

function summary(value) {
  const guesses = value.rows.flatMap((row) => Object.values(row.guesses));
  const right = guesses.filter((guess) => guess.is_right).length;
  const kinds = value.right.map(([kind, some, all]) => `${kind} ${some} of ${all}`).join(", ");
  const loss = guesses.reduce((sum, guess) => sum + guess.loss, 0) / guesses.length;
  const before =
    value.step === 0
      ? "The first batch, with guesses of the untrained model"
      : `Batch of step ${value.step.toLocaleString("en")}, with guesses of the model after the step`;
  const drawn = value.again ? `; masks drawn again (${value.again})` : "";
  const asks = guesses.length
    ? ` ${right} of ${guesses.length} asked words right (${kinds}), mean loss ${loss.toFixed(2)}.`
    : "";
  return `${before}${drawn}.${asks}`;
}

/** @type {View} */
export function view(root, { server, setValue, options }) {
  const summaryLine = el("p", { class: "b-batch-summary" });
  const range = el("span", { class: "b-batch-range" });
  const button = (text, id, hint, press) => {
    const item = el("button", { class: "b-small", id, title: hint }, text);
    item.addEventListener("click", press);
    return item;
  };
  const back = button("◀", "batch-back", "Previous pairs", () => page(-1));
  const next = button("▶", "batch-next", "Next pairs", () => page(1));
  const draw = button("Draw again", "batch-again", "Draw new masks for the same pairs, as a later step would", () =>
    hold(again + 1),
  );
  const own = button("The step's own masks", "batch-own", "The words that were asked in this step", () => hold(0));
  back.setAttribute("aria-label", "Previous pairs");
  next.setAttribute("aria-label", "Next pairs");
  const tools = el("div", { class: "b-tools", "data-no-picture": "" }, back, range, next, draw, own);
  const pairing = el("p", { class: "b-empty" });
  const pairs = el("div", { class: "b-pairs" });
  const key = el("div", {});
  root.append(
    el("h2", {}, "What does one training step look like?"),
    el("p", { class: "b-empty" }, options.hint),
    pairing,
    tools,
    summaryLine,
    pairs,
    key,
  );
  /** @type {{step: number} | null} */
  let shown = null;
  let first = 0;
  let again = 0;
  let isVisible = false;

  const ask = asking(pairs, async () => {
    await visitor.known;
    paint(await server.batch(visitor.token, question.model, again && shown ? shown.step : question.step, first, again));
  });

  function page(direction) {
    first = Math.max(0, first + direction * options.pairs);
    ask();
  }

  function hold(number) {
    again = number;
    ask();
  }

  function paint(value) {
    const hasPairs = Boolean(value.rows);
    tools.hidden = key.hidden = !hasPairs;
    if (!hasPairs) {
      shown = null;
      summaryLine.textContent = value.text;
      pairs.replaceChildren();
      return;
    }
    // This run has smaller batches than the one before.
    if (!value.rows.length && first) {
      first = 0;
      ask();
      return;
    }
    shown = value;
    summaryLine.textContent = summary(value);
    pairing.textContent = value.label === "IsNext" ? options.pairing : "";
    range.textContent = `Pairs ${first + 1} to ${first + value.rows.length} of ${value.pairs}`;
    disable(back, first === 0 && "These are the first pairs.", "Previous pairs");
    disable(next, first + value.rows.length >= value.pairs && "These are the last pairs.", "Next pairs");
    disable(own, again === 0 && "This is the batch of this step.", "The words that were asked in this step");
    pairs.replaceChildren(...value.rows.map((row, index) => pair(row, value.first + index + 1, value.label)));
    key.replaceChildren(legend(value.legend));
    setValue({ run: value.run, step: value.step, first: value.first, again: value.again });
  }

  on("question", ({ changed }) => {
    if (changed.has("model") || changed.has("step")) again = 0;
    else if (!changed.has("newest")) return;
    if (isVisible && !again) ask();
  });
  new IntersectionObserver(([entry]) => {
    isVisible = entry.isIntersecting;
    if (isVisible && !again) ask();
  }).observe(root);
  paint({ text: "" });
  return function drawn() {};
}
