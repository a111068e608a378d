// The bar of a class above all tabs: the view that the teacher sends, and the question to the room.

import { button, changes, el, fill } from "../parts/elements.js";
import { cover } from "../frame/cover.js";
import { say } from "../frame/page.js";
import { address } from "../frame/question.js";
import { asking, tables } from "./rounds.js";
import { act, follow, room, show, teach } from "./state.js";

const SHOWS = "Your teacher shows a view.";

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
    const share = button("Send this view", send, { id: "class-send-view" }),
      ask = button("Ask: which word goes here?", () => report(teach("ask")), { id: "class-ask" });
    bar.prepend(el("div.b-lesson-head", el("h2", "Class"), share, ask));
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
  const actions = {
    answer: (/** @type {string[]} */ words) => report(act("guess", room.round?.number, words)),
    uncover: () => report(teach("uncover")),
    end: () => report(teach("end")),
  };
  follow(() => {
    const { round, teacher, sent } = room;
    paintOffer();
    question.hidden = !round;
    // What a person types stays while the others answer.
    if (isNew.asked(round?.number, round?.open, round?.own))
      fill(asked, round && asking(round, Boolean(teacher), actions));
    if (isNew.bars(round?.bars)) fill(bars, round && tables(round));
    cover("word", "class", Boolean(round?.open));
    bar.hidden = !teacher && !sent && !round;
  });
  root.append(bar);
}
