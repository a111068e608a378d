// The bar of a class above all tabs: what the teacher sends and gives, and the question to the room.

import { table } from "../controls.js";
import { bar as share, button, changes, disable, el, fill } from "../parts/elements.js";
import { announce, kept, on, visitor } from "../frame/page.js";
import { address, question } from "../frame/question.js";
import { nameOf, shown, theirs } from "../lessons/lesson_bar.js";
import { gift } from "./gift.js";
import { asking, isAsked, KINDS, missing, tables } from "./rounds.js";
import { act, follow, room, show, teach } from "./state.js";

/** @typedef {import("./state.js").Round} Round */

/** The kind of question that is asked in the open tab. */
const kindHere = () =>
  /** @type {(keyof typeof KINDS)[]} */ (Object.keys(KINDS)).find((kind) => KINDS[kind].tab === question.tab);

class Bar {
  root = el("section.b-lesson", { "aria-label": "Class", hidden: "" });
  status = el("p", { role: "status" });
  offer = el("div.b-tools");
  round = el("div.class-round");
  asked = el("div.class-asked");
  bars = el("div.class-bars");
  here = el("span.b-model-detail");
  ask = button(
    "Ask the room",
    () => this.report(teach("ask", visitor.token, address(), question, kindHere() ?? "words")),
    { id: "class-ask" },
  );
  gift = gift(
    (answer) => this.report(answer),
    () => this.paint(),
  );
  own = button("Send this lesson", () => this.sendLesson(false), { id: "class-send-lesson" });
  together = button("Take all pages to this step", () => this.sendLesson(true), { id: "class-together" });
  answers = el("div.class-answers");
  isNew = { offer: changes(), asked: changes(), bars: changes(), answers: changes(), kind: changes() };

  isOffered = false; // what the teacher sent, and the person has not answered

  constructor() {
    const send = () => this.report(teach("send", "", address()), "Sent to all pages.");
    const view = button("Send this view", send, { id: "class-send-view" });
    this.round.append(this.asked, this.bars);
    this.root.append(this.offer, this.gift.element, this.round, this.status);
    if (room.teacher) {
      this.root.prepend(el("div.b-lesson-head", el("h2", "Class"), this.here, view, this.together, this.own, this.ask));
      this.root.append(this.answers);
    }
    on("step", () => this.paint());
    on("question", () => this.paint());
    follow(() => this.paint());
  }

  /** @param {Promise<any>} answer @param {string} [text] */
  async report(answer, text = "") {
    this.status.textContent = (await answer).error ?? text;
  }

  /** Send the open lesson to all pages. @param {boolean} together whether all pages are taken to this step */
  sendLesson(together) {
    const { lesson, at } = question,
      title = shown.lesson?.title ?? "";
    const sent =
      lesson === "file"
        ? teach("send_lesson", JSON.stringify(kept("lesson", "")), together ? at : 0, together)
        : teach("send", title, `#lesson=${lesson}&at=${at}`, together);
    return this.report(sent, "Sent to all pages.");
  }

  paint() {
    const { round, teacher, here, training, failed, lesson } = room;
    const counts = (round ? [round.count] : this.counts()).reduce((sum, each) => sum + each, 0);
    this.here.textContent = `${here} open · ${counts} answered · ${training} training · ${failed} failed`;
    this.own.hidden = question.lesson !== "file";
    this.together.hidden = !shown.lesson?.steps.length;
    const kind = kindHere();
    if (this.isNew.kind(kind)) this.ask.textContent = kind ? KINDS[kind].ask : "Ask the room";
    disable(this.ask, missing(kind));
    this.gift.paint();
    this.paintOffer();
    this.paintRound();
    this.paintAnswers();
    document.body.classList.toggle("class-asks", isAsked(round, "words"));
    document.body.classList.toggle("class-asks-pair", isAsked(round, "follows"));
    this.root.hidden = !teacher && !lesson && !round && !room.given;
    this.root.classList.toggle("is-offer", !teacher && (this.isOffered || this.gift.isNew()));
  }

  /** How often each choice of a step was the answer. @param {number} [at] */
  counts(at = shown.at) {
    return room.answers[nameOf({ ...shown, at })] ?? [];
  }

  /** For the teacher: the answers to the step that is shown, and to all others. */
  paintAnswers() {
    const { lesson, at } = shown;
    if (!room.teacher || !this.isNew.answers(lesson?.title, at, room.answers)) return;
    const { steps = [] } = lesson ?? {},
      isOpen = this.answers.querySelector("details")?.open;
    const all = steps.map((step, k) => step.ask && this.answered(step, k));
    fill(
      this.answers,
      steps[at]?.ask && this.answered(steps[at], at),
      all.some(Boolean) && el("details", { open: isOpen ? "" : null }, el("summary", "Answers to all steps"), all),
    );
  }

  /** @param {any} step @param {number} at */
  answered({ ask, choices, right }, at) {
    const counts = this.counts(at),
      most = Math.max(1, ...counts),
      total = counts.reduce((sum, count) => sum + count, 0);
    const rows = (choices.length ? choices : ["Show the answer"]).map((choice, k) => {
      const name = [theirs(choice), k === right && el("span.b-mark", "right")];
      return [name, share((counts[k] ?? 0) / most, "mlm"), `${counts[k] ?? 0}`];
    });
    const caption = el("caption", `Step ${at + 1}: `, theirs(ask), el("span.b-mark", `${total} answered`));
    return table([], rows, { numbers: 2, caption, class: "b-table class-histogram" });
  }

  /** What the teacher sent: until the person has answered it stays in the window, and after that in the bar. */
  paintOffer() {
    const { lesson: sent, teacher } = room,
      isNew = Boolean(sent) && room.kept.get("seen") !== sent?.number,
      isAlone = Boolean(room.kept.get("alone"));
    if (!this.isNew.offer(sent, isNew, isAlone)) return;
    if (!sent?.together) room.kept.set("before", "");
    if (isNew && sent?.together && !teacher && !isAlone) {
      room.kept.set("before", room.kept.get("before") || address());
      this.open().catch(console.warn);
      return;
    }
    this.isOffered = isNew;
    const back = button("Take it back", () => this.report(teach("send", "", "")), { id: "class-unsend" });
    const answers = teacher ? back : this.choices(isNew, isAlone);
    fill(
      this.offer,
      sent && [el("span", { role: isNew ? "status" : null }, this.saying(sent, Boolean(teacher))), answers],
    );
  }

  /** @param {import("./state.js").Sent} sent @param {boolean} isTeacher */
  saying({ title, lesson, together }, isTeacher) {
    const named = title ? ["“", el("bdi", { translate: lesson ? "no" : "yes" }, title), "”"] : "a view";
    if (together) return [isTeacher ? "All pages were taken to " : "Your teacher takes all pages to ", named];
    return [isTeacher ? "All pages are offered " : "Your teacher shows ", named];
  }

  /** @param {boolean} isNew @param {boolean} isAlone */
  choices(isNew, isAlone) {
    const isTaken = room.lesson?.together && !isAlone;
    const leave = () => {
      room.kept.set("alone", true);
      const before = room.kept.get("before") ?? "";
      room.kept.set("before", "");
      show(before.slice(1) || "tab=train");
      this.close();
    };
    const open = () => {
      room.kept.set("alone", false);
      this.open().catch(console.warn);
    };
    return [
      button(isTaken ? "Open again" : room.lesson?.together ? "Follow the teacher" : "Open", open, {
        id: "class-open",
      }),
      isTaken && button("Back to where I was, on my own", leave, { id: "class-leave" }),
      isNew && !isTaken && button("Not now", () => this.close(), { id: "class-close" }),
    ];
  }

  /** The person has answered the offer. */
  close() {
    room.kept.set("seen", room.lesson?.number);
    this.paint();
  }

  async open() {
    const { lesson: sent } = room;
    if (!sent) return;
    this.close();
    if (sent.lesson) {
      const found = await act("lesson");
      this.status.textContent = found.error ?? "";
      if (!found.error) announce("lesson", { ...found, at: Number(new URLSearchParams(sent.link).get("at")) });
    } else show(sent.link);
  }

  /** The question to the room. What a person types stays while the others answer. */
  paintRound() {
    const { round, teacher } = room;
    this.round.hidden = !round;
    const actions = {
      answer: (/** @type {string[]} */ words) => this.report(act("guess", round?.number, words)),
      uncover: () => this.report(teach("uncover")),
      end: () => this.report(teach("end")),
      look: () => show(round?.link ?? ""),
    };
    if (this.isNew.asked(round?.number, round?.open, round?.own))
      fill(this.asked, round && asking(round, Boolean(teacher), actions));
    if (this.isNew.bars(round?.bars)) fill(this.bars, round && tables(round));
  }
}

/** @type {View} */
export const view = (root) => root.append(new Bar().root);
