// The bar of a class above all tabs: the view that the teacher sends, and the question to the room.

import { button, changes, el, fill } from "../parts/elements.js";
import { cover } from "../frame/cover.js";
import { say } from "../frame/page.js";
import { address } from "../frame/question.js";
import { asking, tables } from "./rounds.js";
import { act, follow, room, show, teach } from "./state.js";

const SHOWS = "Your teacher shows a view.";

class Bar {
  root = el("section.b-lesson", { "aria-label": "Class", hidden: "" });
  status = el("p", { role: "status" });
  offer = el("div.b-tools");
  round = el("div.class-round");
  asked = el("div.class-asked");
  bars = el("div.class-bars");
  isNew = { offer: changes(), asked: changes(), bars: changes() };

  constructor() {
    const send = () => this.report(teach("send", address()), "Sent to all pages.");
    const view = button("Send this view", send, { id: "class-send-view" }),
      ask = button("Ask: which word goes here?", () => this.report(teach("ask")), { id: "class-ask" });
    this.round.append(this.asked, this.bars);
    this.root.append(this.offer, this.round, this.status);
    if (room.teacher) this.root.prepend(el("div.b-lesson-head", el("h2", "Class"), view, ask));
    follow(() => this.paint());
  }

  /** @param {Promise<any>} answer @param {string} [text] */
  async report(answer, text = "") {
    this.status.textContent = (await answer).error ?? text;
  }

  paint() {
    const { round, teacher, sent } = room;
    this.paintOffer();
    this.paintRound();
    cover("word", "class", Boolean(round?.open));
    this.root.hidden = !teacher && !sent && !round;
  }

  /** What the teacher sent. */
  paintOffer() {
    const { sent, teacher } = room;
    if (!this.isNew.offer(sent)) return;
    const take = teacher
      ? button("Take it back", () => this.report(teach("send", "")), { id: "class-unsend" })
      : button("Open", () => show(sent?.link ?? ""), { id: "class-open" });
    fill(this.offer, sent && [teacher ? "All pages are offered a view." : SHOWS, take]);
    if (sent && !teacher) say(SHOWS); // wherever the page is scrolled
  }

  /** The question to the room. What a person types stays while the others answer. */
  paintRound() {
    const { round, teacher } = room;
    this.round.hidden = !round;
    const actions = {
      answer: (/** @type {string[]} */ words) => this.report(act("guess", round?.number, words)),
      uncover: () => this.report(teach("uncover")),
      end: () => this.report(teach("end")),
    };
    if (this.isNew.asked(round?.number, round?.open, round?.own))
      fill(this.asked, round && asking(round, Boolean(teacher), actions));
    if (this.isNew.bars(round?.bars)) fill(this.bars, round && tables(round));
  }
}

/** @type {View} */
export const view = (root) => root.append(new Bar().root);
