// The questions to the room: which word is hidden, whether a sentence follows another, which loss a run will end with. All
// have gaps for answers, a histogram of these and, once it is uncovered, what is right and the model's answers beside it.

import { row, table } from "../controls.js";
import { bar as share, button, el, own as theirs } from "../parts/elements.js";
import { count as whole, percent } from "../parts/numbers.js";
import { question } from "../frame/question.js";

/** @typedef {import("./state.js").Round} Round */

const GAP = "[MASK]";
const ARRIVED = "Your guess has arrived. The answer is shown when your teacher uncovers it.";
const COVERED = "Where this page shows the same sentence, the answer is covered until you uncover it.";
const WAITS = "Uncover it when your run has ended. The room sees all guesses then, and what the run gave.";
const UNRATED = "A – means that the model has no number for this word.";
const UNKNOWN = "The model's own text lacks one of these sentences, so nobody knows the true answer.";
const LOST = "How this run ended is not known.";
const LOSS = "It is the mean over the last 20 steps of a run of your teacher.";

/** For each kind: the tab where it is asked, the button, the heads of an open and of an uncovered question, and the mark of what is right. */
export const KINDS = {
  words: {
    tab: "masked-words",
    ask: "Ask: which word goes here?",
    open: "Which word goes here?",
    closed: "What the room guessed, and the model",
    right: "hidden",
  },
  follows: {
    tab: "next-sentence",
    ask: "Ask: does it follow?",
    open: "Does the second sentence follow the first?",
    closed: "What the room answered, and the model",
    right: "true",
  },
  loss: {
    tab: "train",
    ask: "Ask: what will the loss be?",
    open: "What will the MLM loss be after the run?",
    closed: "What the room guessed, and what the run gave",
    right: "the run",
  },
};
/** @type {Record<string, string>} */
const ANSWERS = { yes: "Yes", no: "No" };

/** Why the room cannot be asked about what the page shows, or false. @param {keyof typeof KINDS | undefined} kind */
export function missing(kind) {
  const { text, pair, hidden } = question;
  if (!kind) return "Open Masked words, Next sentence or Train to ask the room.";
  if (kind === "words" && !hidden?.length && !`${text} ${pair}`.includes(GAP))
    return "Hide a word in the tab Masked words first.";
  return kind === "follows" && !(text.trim() && pair.trim()) && "Type or choose two sentences first.";
}

/** The sentences of a question; `gap` makes what stands at each gap. @param {Round} round @param {(gap: number) => Node} gap */
function sentences({ texts }, gap) {
  let number = 0;
  return texts.map((text) => {
    const parts = text.split(GAP).flatMap((part, k) => [k > 0 && gap(number++), part && theirs(part)]);
    return el("p.class-sentence", { dir: "auto" }, parts);
  });
}

/** How often each answer was given and, uncovered, how probable it is for the model. @param {Round} round */
export const tables = ({ kind, bars, count, open, gaps, own }) =>
  bars.map((words, k) => {
    const most = Math.max(1, ...words.map(([, times]) => times)),
      isRated = !open && kind !== "loss";
    const rows = words.map(([word, times, probability, isRight]) => {
      const mark = [isRight && KINDS[kind].right, own?.[k] === word && "your guess"].filter(Boolean).join(", ");
      const name = kind === "follows" ? ANSWERS[word] : theirs(word);
      const cells = [[name, mark && el("span.b-mark", mark)], share(times / most, "mlm"), `${times}`];
      if (isRated) cells.push(probability === null ? "–" : percent(probability ?? 0));
      return row(cells, { class: isRight ? "is-own" : null }, 2);
    });
    const first = kind === "words" ? "Word" : kind === "loss" ? "Loss" : "Answer";
    const head = open ? [] : [first, el("span.b-unseen", "Share"), "Room", isRated && "Model"].filter(Boolean);
    const caption = [gaps > 1 && `Mask ${k + 1}: `, `${count} ${count === 1 ? "guess" : "guesses"}`];
    return table(head, rows, { numbers: 2, caption: el("caption", caption), class: "b-table class-histogram" });
  });

/** Whether a text is a sentence with gaps, filled. @param {string} text @param {string} gapped */
function fits(text, gapped) {
  const parts = gapped.split(GAP);
  let at = 0;
  return (
    text.startsWith(parts[0]) &&
    text.endsWith(parts.at(-1) ?? "") &&
    parts.every((part) => (at = text.indexOf(part, at) + part.length) >= part.length)
  );
}

/** Whether the page shows the sentences of an open question of a kind. @param {Round | null} round @param {string} kind */
export function isAsked(round, kind) {
  if (!round?.open || round.kind !== kind) return false;
  const found = [question.text, question.pair].filter(Boolean);
  return found.length === round.texts.length && found.every((text, k) => fits(text, round.texts[k]));
}

/** What a page answers with: a field for each gap and the button, or a button for each answer. @param {Round} round @param {(words: string[]) => void} answer */
function form(round, answer) {
  if (round.kind === "follows") {
    const choices = Object.entries(ANSWERS).map(([word, name]) =>
      button(name, () => answer([word]), { id: `class-answer-${word}` }),
    );
    return [sentences(round, () => el("b", "____")), el("div.b-tools", choices)];
  }
  const isLoss = round.kind === "loss";
  const boxes = Array.from({ length: round.gaps }, (_, k) =>
    el("input", {
      type: "text",
      autocomplete: "off",
      inputmode: isLoss ? "decimal" : null,
      "aria-label": isLoss ? "Your guess" : `Your word for mask ${k + 1}`,
      placeholder: isLoss ? "Your guess" : "Your word",
    }),
  );
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    answer(boxes.map(({ value }) => value));
  };
  const submit = el("button.b-small", { type: "submit", id: "class-guess" }, "Send my guess"),
    text = sentences(round, (gap) => boxes[gap]);
  return el("form", { onsubmit: send }, text, isLoss && el("p.class-sentence", boxes), submit);
}

/** About the run whose loss is asked for. @param {Round["about"]} about */
function aboutRun({ title, steps, rate, blind }) {
  const sizes = `It has ${whole(steps ?? 0)} steps and the learning rate ${rate}.`;
  const known = title ? ["The run is ", theirs(title), ". ", sizes, " "] : "The run has not begun yet. ";
  return el("p.b-empty", LOSS, " ", known, blind && `Guessing blindly has ${blind}.`);
}

/** What an uncovered question says. @param {Round} round */
function outcome({ kind, model, right = [], nearest, bars, own }) {
  if (kind === "loss") {
    const text = right[0] ? `The run ended with an MLM loss of ${right[0]}.` : LOST;
    const guesses = [nearest && ` The nearest guess is ${nearest}.`, own && ` Your guess is ${own[0]}.`];
    return el("p.class-outcome", text, guesses);
  }
  const isUnrated = bars.flat().some(([, , probability]) => probability === null);
  return [
    el("p.b-empty", "The model is ", theirs(model ?? ""), "."),
    isUnrated && el("p.b-empty", UNRATED),
    kind === "follows" && !right[0] && el("p.b-empty", UNKNOWN),
  ];
}

/**
 * A question as a page shows it, without the histogram. @param {Round} round @param {boolean} isTeacher
 * @param {{answer: (words: string[]) => void, uncover: () => void, end: () => void, look: () => void}} actions
 */
export function asking(round, isTeacher, { answer, uncover, end, look }) {
  const { open, own, kind } = round,
    isMine = open && !own && !isTeacher;
  const tools = [
    isTeacher && open && button("Uncover", uncover, { id: "class-uncover" }),
    isTeacher && button("End", end, { id: "class-end" }),
    !open && !isTeacher && kind !== "loss" && button("Open this view", look, { id: "class-look" }),
  ];
  return [
    el("div.b-tools", el("strong", KINDS[kind][open ? "open" : "closed"]), tools),
    kind === "loss" && aboutRun(round.about),
    isMine ? form(round, answer) : sentences(round, () => el("b", "____")),
    open && isTeacher && el("p.b-empty", kind === "loss" ? WAITS : COVERED),
    open && own && !isTeacher && el("p.b-empty", ARRIVED),
    !open && outcome(round),
  ];
}
