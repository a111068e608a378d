// The bar of a class above all tabs: the view that the teacher sends, and the question to the room: which word is hidden. It
// has a gap for each answer, a histogram of these and, once it is uncovered, what is hidden and the model's guesses beside it.

import { row, table } from "../controls.js";
import { bar as share, button, changes, el, fill, own as theirs } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";
import { cover } from "../frame/cover.js";
import { say } from "../frame/page.js";
import { address } from "../frame/question.js";
import { act, follow, room, show, teach } from "./state.js";

/** @typedef {import("./state.js").Round} Round */
/** @typedef {(done: Promise<any>, text?: string) => void} Report says the error of what was done, or a text */

const SHOWS = "Your teacher shows a view.";
const GAP = "[MASK]";
const ARRIVED = "Your guess has arrived. The answer is shown when your teacher uncovers it.";
const COVERED = "While this is asked, the guesses of models are covered on all pages.";
const UNRATED = "A – means that the model has no number for this word.";

/** The sentences of a question; `gap` makes what stands at each gap. @param {Round} round @param {(gap: number) => Node} gap */
function sentences({ texts }, gap) {
  let number = 0;
  return texts.map((text) => {
    const parts = text.split(GAP).flatMap((part, k) => [k > 0 && gap(number++), part && theirs(part)]);
    return el("p.class-sentence", { dir: "auto" }, parts);
  });
}

/** How often each answer was given and, uncovered, how probable it is for the model. @param {Round} round */
const tables = ({ bars, count, open, gaps, own }) =>
  bars.map((words, k) => {
    const most = Math.max(1, ...words.map(([, times]) => times));
    const rows = words.map(([word, times, probability, isRight]) => {
      const mark = [isRight && "hidden", own?.[k] === word && "your guess"].filter(Boolean).join(", ");
      const cells = [[theirs(word), mark && el("span.b-mark", mark)], share(times / most, "mlm"), `${times}`];
      if (!open) cells.push(probability === null ? "–" : percent(probability ?? 0));
      return row(cells, { class: isRight ? "is-own" : null }, 2);
    });
    const head = open ? [] : ["Word", el("span.b-unseen", "Share"), "Room", "Model"];
    const caption = [gaps > 1 && `Mask ${k + 1}: `, `${count} ${count === 1 ? "guess" : "guesses"}`];
    return table(head, rows, { numbers: 2, caption: el("caption", caption), class: "b-table class-histogram" });
  });

/** What a page answers with: a field for each gap and the button. @param {Round} round @param {(words: string[]) => void} answer */
function form(round, answer) {
  const boxes = Array.from({ length: round.gaps }, (_, k) =>
    el("input", {
      type: "text",
      autocomplete: "off",
      "aria-label": `Your word for mask ${k + 1}`,
      placeholder: "Your word",
    }),
  );
  const send = (/** @type {Event} */ event) => {
    event.preventDefault();
    answer(boxes.map(({ value }) => value));
  };
  const submit = el("button.b-small", { type: "submit", id: "class-guess" }, "Send my guess");
  return el(
    "form",
    { onsubmit: send },
    sentences(round, (gap) => boxes[gap]),
    submit,
  );
}

/** A question as a page shows it, without the histogram. @param {Round} round @param {Report} report */
function asking(round, report) {
  const { number, open, own, model, bars } = round,
    isTeacher = Boolean(room.teacher),
    isUnrated = bars.flat().some(([, , probability]) => probability === null);
  const answer = (/** @type {string[]} */ words) => report(act("guess", number, words));
  const tools = [
    isTeacher && open && button("Uncover", () => report(teach("uncover")), { id: "class-uncover" }),
    isTeacher && button("End", () => report(teach("end")), { id: "class-end" }),
  ];
  return [
    el("div.b-tools", el("strong", open ? "Which word goes here?" : "What the room guessed, and the model"), tools),
    open && !own && !isTeacher ? form(round, answer) : sentences(round, () => el("b", "____")),
    open && own && el("p.b-empty", ARRIVED),
    open && el("p.b-empty", COVERED),
    !open && el("p.b-empty", "The model is ", theirs(model ?? ""), "."),
    isUnrated && el("p.b-empty", UNRATED),
  ];
}

/** @type {View} */
export function view(root) {
  const status = el("p", { role: "status" }),
    offer = el("div.b-tools"),
    asked = el("div.class-asked"),
    bars = el("div.class-bars"),
    question = el("div.class-round", asked, bars),
    bar = el("section.b-lesson", { "aria-label": "Class", hidden: "" }, offer, question, status),
    isNew = { offer: changes(), asked: changes(), bars: changes() };
  const report = async (/** @type {Promise<any>} */ answer, text = "") => {
    status.textContent = (await answer).error ?? text;
  };
  if (room.teacher) {
    const send = () => report(teach("send", address()), "Sent to all pages.");
    const sendView = button("Send this view", send, { id: "class-send-view" }),
      ask = button("Ask: which word goes here?", () => report(teach("ask")), { id: "class-ask" });
    bar.prepend(el("div.b-lesson-head", el("h2", "Class"), sendView, ask));
  }

  /** What the teacher sent. */
  const paintOffer = () => {
    const { sent, teacher } = room;
    if (!isNew.offer(sent)) return;
    const take = teacher
      ? button("Take it back", () => report(teach("send", "")), { id: "class-unsend" })
      : button("Open", () => show(sent?.link ?? ""), { id: "class-open" });
    fill(offer, sent && [teacher ? "All pages are offered a view." : SHOWS, take]);
    if (sent && !teacher) say(SHOWS); // wherever the page is scrolled
  };
  follow(() => {
    const { round, teacher, sent } = room;
    paintOffer();
    question.hidden = !round;
    // What a person types stays while the others answer.
    if (isNew.asked(round?.number, round?.open, round?.own)) fill(asked, round && asking(round, report));
    if (isNew.bars(round?.bars)) fill(bars, round && tables(round));
    cover("word", "class", Boolean(round?.open));
    bar.hidden = !teacher && !sent && !round;
  });
  root.append(bar);
}
