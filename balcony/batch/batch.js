// The batch of a step: pairs or examples of a task as the model was given them, and its answers to what it was asked for.
// The view follows the selected step.
// Kinds of tokens do not differ by colour alone: each has its own border, and asked words name their kind.

import { button, code, direction, disable, el, fill, judged, own, tools, withTerms } from "../parts/elements.js";
import { count, fixed, percent } from "../parts/numbers.js";
import { ask, question } from "../frame/question.js";
import { scrolling, table } from "../controls.js";

/** @typedef {{at?: number, label: any, guess: any, probability?: number, loss: number, is_right: boolean | null, what?: "start" | "end", guessed?: number, scores?: [name: string, logit: number, probability: number][]}} Asked of a row; at: the position of the token that it is about, of an answer that of the true one, and guessed the model's; is_right: null for a number */
/** @typedef {{number: number, of: number, step: number, with_answer: number[], from?: number, to?: number, before?: number, after?: number, shared?: number[]}} Window see `_window` in balcony/batch/rows.py */
/** @typedef {{example: number, number: number | null, answer?: string, window?: Window, lost?: number, asks: Asked[]} & Record<string, any>} Row number: null for a window of another step */

const GATHERED = [
  "dim 0: output[i][j][k] = input[index[i][j][k]][j][k]",
  "dim 1: output[i][j][k] = input[i][index[i][j][k]][k]",
  "dim 2: output[i][j][k] = input[i][j][index[i][j][k]]",
];
const SAMPLES = { masked: "[[[MASK]]]", special: "[[[CLS]]]", padding: "[[[PAD]]]" };
const KINDS = { masked: "[[masked]]", replaced: "[[replaced]]", kept: "[[kept]]" };

/** A token; an asked one with its kind, what is right, the guess and the loss. @param {Row} row @param {number} at @param {number} end */
function token({ tokens, ids, kinds, asks, window }, at, end) {
  const kind = kinds[at],
    isShared = window?.shared?.includes(at);
  return el(
    isShared ? `li.b-token.is-${kind}.is-shared` : `li.b-token.is-${kind}`,
    { title: isShared && kind !== "answer" ? "shared" : kind },
    el("bdi.b-token-shown", kind === "padding" ? `${tokens[at]} × ${end - at}` : tokens[at]),
    asks.map(({ what, at: right, label, guess, guessed, probability = 0, loss, is_right: isRight }) =>
      what
        ? [
            right === at && el("small.b-token-kind", what),
            guessed === at && judged("small", isRight, what === "start" ? "model: start" : "model: end"),
          ]
        : right === at && [
            el("small.b-token-kind", kind),
            el("small", "true: ", el("bdi", label)),
            judged("small", isRight, el("bdi", guess), ` ${percent(probability)}`),
            el("small", `loss ${fixed(loss)}`),
          ],
    ),
    el("small.b-token-id", kind === "later" ? `${ids[at]} · -100` : `${ids[at]}`),
  );
}

/** Tokens of one kind of segment. @param {any} row @param {string} name @param {number} from @param {number} to @param {string} segment */
function line(row, name, from, to, segment) {
  const length = segment === "padding" ? 1 : to - from,
    tokens = Array.from({ length }, (_, k) => token(row, from + k, to)),
    dir = direction(row.tokens.slice(from, to)),
    list = el("ol", { "aria-label": name ? `${name}, ${segment}` : segment, dir }, tokens),
    read = segment === "padding" ? "segment 0, attention mask 0" : `${segment}, attention mask 1`;
  return el("div.b-segment", el("span.b-segment-name", { title: segment }, name), el("small.b-token-id", read), list);
}

/** The segments of a row, and its padding. @param {any} row */
function lines(row) {
  const { tokens, kinds, segments } = row,
    padding = kinds.indexOf("padding"),
    end = padding < 0 ? tokens.length : padding,
    hasB = segments.includes(1), // without next sentence prediction, a sentence may stand alone
    second = hasB ? segments.indexOf(1) : end;
  return [
    line(row, "A", 0, second, "segment 0"),
    hasB && line(row, "B", second, end, "segment 1"),
    padding >= 0 && line(row, "", end, tokens.length, "padding"),
  ];
}

/** An answer, or a number. @param {string | number} value */
const shown = (value) => el("bdi", typeof value === "number" ? fixed(value) : value);

/** What is asked of a row or of choices, and the model's answer. @param {Asked} asked @param {boolean} [isChoice] */
function asked({ label, guess, probability, loss, is_right: isRight, what, scores = [] }, isChoice) {
  const said = (/** @type {string | number} */ value) => [isChoice && "choice ", shown(value)];
  return [
    judged(
      "p",
      isRight,
      what && [el("strong", what), ", "],
      "true: ",
      said(label),
      "; ",
      "the model: ",
      said(guess),
      probability !== undefined && ` ${percent(probability)}`,
      "; ",
      isRight === null ? `squared error ${fixed(loss)}` : `loss ${fixed(loss)}`,
    ),
    scores.length > 0 &&
      !isChoice &&
      el(
        "p",
        "Scores: ",
        scores.map(([name, logit, p], k) => [k > 0 && ", ", el("bdi", name), ` ${fixed(logit)} (${percent(p)})`]),
      ),
  ];
}

/** Which window of its context, or part of its sentence, a row is, and whether it has the answer. @param {Row} row @param {Window} window */
function place({ number: used, answer }, { number, of, step, from, to, before = 0, after = 0, with_answer: holders }) {
  const name = from ? `Window ${number} of ${of}` : `Part ${number} of ${of} of a long sentence`,
    when = used === null && `read in step ${step}`,
    others = holders.join(", ");
  const has = holders.includes(number)
    ? el("strong", "The answer is in it.")
    : answer && (others ? `Windows with the answer: ${others}.` : "No window has the whole answer.");
  return [
    el("strong", name),
    when && [", ", when],
    from && [": ", `tokens ${from} to ${to} of the context`],
    ". ",
    before > 0 && `The first ${before} are in window ${number - 1} too. `,
    after > 0 && `The last ${after} are in window ${number + 1} too. `,
    has,
  ];
}

/** One row of an example. @param {Row} row @param {number} k its place among them @param {Row[]} rows */
function drawn(row, k, rows) {
  const { window, lost = 0, number, answer, asks } = row,
    { label, scores = [] } = rows[0].asks[0] ?? {},
    score = scores.find(([name]) => name === `${k + 1}`);
  const choice = rows.length > 1 && [
    el("strong", `Choice ${k + 1}`),
    label === `${k + 1}` && [" ", el("strong", "(right)")],
    score && [": ", `score ${fixed(score[1])} (${percent(score[2])})`],
  ];
  const about = window ? place(row, window) : choice;
  if (number === null) return el("details.b-preview-more", el("summary", about), lines(row));
  return el(
    "div.b-batch-row",
    about && el("p", about),
    lost > 0 && el("p.b-wrong", `${lost} of its tokens had no room.`),
    answer !== undefined && asks.map((each) => asked(each)),
    lines(row),
  );
}

/** A pair, or an example of a task, with its rows. @param {Row[]} rows @param {boolean} isTask */
function example(rows, isTask) {
  const [{ example: number, answer, window, asks }] = rows,
    here = rows.filter((row) => row.number !== null);
  return el(
    "section.b-pair",
    el(
      "h4",
      isTask ? `Example ${number + 1}` : `Pair ${number + 1}`,
      answer !== undefined &&
        (answer ? [": ", "the answer is ", el("bdi", `“${answer}”`)] : [": ", "the context has no answer"]),
      window && [". ", `This step has ${here.length} of its ${window.of} rows.`],
    ),
    asks.filter(({ at }) => at === undefined).map((each) => asked(each, rows.length > 1)),
    el("div.b-batch-rows", rows.map(drawn)),
  );
}

/** @param {[kind: string, text: string][]} entries */
function legend(entries) {
  const lines = entries.map(([kind, text]) =>
    el(
      "div",
      el(`dt.b-token.is-${kind}`, withTerms(SAMPLES[kind] ?? "word")),
      el("dd", el("strong", withTerms(KINDS[kind] ?? kind)), ": ", text),
    ),
  );
  return el("dl.b-batch-legend", lines);
}

/** The tensors of the batch, and where the asked words of the shown pairs are among all positions. @param {any} value */
function gathered({ rows, length, sizes, task }) {
  const words = rows.flatMap(({ example, number, asks }) =>
    asks
      .filter(({ at }) => at !== undefined)
      .map(({ at, label }, j) => [
        `Pair ${example + 1}`,
        `${number}`,
        `${at}`,
        `${number} × ${length} + ${at} = ${number * length + at}`,
        code(`output[${number}][${j}][k] = vectors[${number}][${at}][k]`),
        el("bdi", label),
      ]),
  );
  const named = sizes.map(([name, size]) => [el("code", name), size]),
    listed = scrolling("Shapes of the batch", table(["Tensor", "Size"], named));
  if (task) return listed;
  return [
    listed,
    el("p", "Position t of the pair in row b of the batch has the number b × T + t. For the pairs above:"),
    scrolling(
      "Asked positions",
      table(["", "Row b", "Position t", "Number", "By torch.gather", "Asked word"], words, { numbers: 6 }),
    ),
    el(
      "p",
      "torch.gather copies the same vectors out of a tensor (B, T, D). Of its three rules, that for dim 1 is used:",
    ),
    GATHERED.map((rule) => el("p", code(rule))),
  ];
}

/** @param {any} value always: the most frequent answer in training, and to how many of these questions it is right; of numbers their mean, and its mean squared error */
function summary({ rows, step, task, always }) {
  const guesses = rows.flatMap(({ asks }) => asks.filter(({ at }) => task || at !== undefined)),
    known = guesses.filter((guess) => guess.is_right).length,
    loss = fixed(guesses.reduce((sum, guess) => sum + guess.loss, 0) / guesses.length);
  const before = step
    ? `Batch of step ${count(step)}, with guesses of the model after the step`
    : "The first batch, with guesses of the untrained model";
  if (!guesses.length) return `${before}.`;
  if (task === "text-regression")
    return `${before}. Mean squared error of these examples ${loss}. Always answering ${fixed(always[0])}, the mean of the training examples, would have ${fixed(always[1])}.`;
  const about = task ? "answers to these examples right, mean loss" : "asked words of these pairs right, mean loss";
  return `${before}. ${known} of ${guesses.length} ${about} ${loss}. Always answering “${own(always[0])}” would be right for ${always[1]}.`;
}

/** @type {View} */
export function view(root, { options }) {
  const turn = (/** @type {number} */ by) => ask({ first: Math.max(0, question.first + by * options.pairs) }),
    back = button("◀", () => turn(-1), { id: "batch-back" }),
    next = button("▶", () => turn(1), { id: "batch-next" }),
    range = el("span.b-batch-range"),
    pages = tools(back, range, next),
    [hints, pairs, shapes, why] = [el("div"), el("div"), el("div"), el("div")],
    [said, insideName] = [el("p.b-batch-summary"), el("summary")],
    inside = el("details.b-preview-more", insideName, shapes);
  root.append(
    el("h2", withTerms("What does one training [[step]] look like?")),
    hints,
    pages,
    said,
    pairs,
    inside,
    why,
  );

  return function draw(/** @type {any} */ value) {
    const { rows, first, task } = value ?? {};
    // This run has smaller batches than the one before.
    if (rows && !rows.length && first) return ask({ first: 0 });
    pages.hidden = inside.hidden = !rows;
    said.textContent = rows ? summary(value) : (value?.text ?? "");
    if (!rows) return [hints, pairs, why].forEach((part) => fill(part));
    const examples = [...new Set(rows.map((row) => row.example))],
      groups = examples.map((each) => rows.filter((row) => row.example === each)),
      last = first + groups.length;
    range.textContent = `${task ? "Examples" : "Pairs"} ${first + 1} to ${last} of ${value.pairs}`;
    disable(back, first === 0 && "These are the first examples.", "Previous examples");
    disable(next, last >= value.pairs && "These are the last examples.", "Next examples");
    fill(
      hints,
      value.hints.map((hint) => el("p.b-empty", withTerms(hint))),
    );
    fill(
      pairs,
      legend(value.legend),
      groups.map((each) => example(each, Boolean(task))),
    );
    insideName.textContent = task ? "Shapes of the batch" : "Shapes, and how the asked words are gathered";
    fill(shapes, gathered(value));
    fill(why, value.why && el("p.b-empty", value.why));
  };
}
