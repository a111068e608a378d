// The bar of a class above all tabs: what the teacher sends, the question to the room, and its histogram.

import { keepingFocus, table } from "../controls.js";
import { bar as share, button, disable, el, fill } from "../parts/elements.js";
import { on } from "../frame/page.js";
import { question } from "../frame/question.js";
import { act, follow, room, show, teach } from "./state.js";

const FIND_MS = 10000;
const ARRIVED = "Your guess has arrived; the model's is covered until your teacher uncovers it.";

/** How often each word was guessed, for each mask. @param {import("./state.js").Round} round */
const histogram = ({ bars, count }) =>
  bars.map((words, k) => {
    const caption = [bars.length > 1 && `Mask ${k + 1}: `, `${count} ${count === 1 ? "guess" : "guesses"}`];
    const rows = words.map(([word, times]) => [el("bdi", word), share(times / words[0][1], "mlm"), `${times}`]);
    return table([], rows, { numbers: 2, caption: el("caption", caption), class: "b-table class-histogram" });
  });

/** Whether the page asks what the room is asked. */
function isAsked() {
  if (!room.round) return false;
  const parts = new URLSearchParams(room.round.link),
    { tab, text, pair, hidden } = question,
    here = { text, pair, hidden: (hidden ?? []).join(",") };
  return tab === "masked-words" && Object.entries(here).every(([key, value]) => (parts.get(key) ?? "") === value);
}

/** The box "Guess first". @returns {Promise<HTMLInputElement | null>} */
async function guessFirst() {
  for (const end = performance.now() + FIND_MS; performance.now() < end; await new Promise(requestAnimationFrame)) {
    const box = document.querySelector("#guess-first-masked-words");
    if (box instanceof HTMLInputElement) return box;
  }
  return null;
}

/** Cover the model's guesses, also those that were uncovered before. */
async function cover() {
  const box = await guessFirst();
  if (box?.checked) box.click();
  box?.click();
}

/** The boxes for guesses. @returns {HTMLFormElement | null} */
const form = () => document.querySelector("#masked-guesses form:has(#uncover)");

/** What the teacher asks about: the sentences with the hidden words, for the model that comes with the program. */
function asked() {
  const { text, pair, hidden, model, recipe } = question,
    ofModel = model && !recipe && { model };
  const parts = { tab: "masked-words", text, ...(pair && { pair }), hidden: (hidden ?? []).join(","), ...ofModel };
  return `#${new URLSearchParams(parts)}`;
}

class Bar {
  root = el("section.b-lesson", { "aria-label": "Class", hidden: "" });
  status = el("p", { role: "status" });
  lesson = el("div.b-tools");
  round = el("div.class-round");
  here = el("span.b-model-detail");
  ask = button("Ask: which word goes here?", () => this.report(teach("ask", asked())), { id: "class-ask" });
  drawn = { lesson: -1, round: "" };
  covered = 0; // number of the question for which this page has covered the guesses
  isPassing = false; // the person's guess is counted beside the model's, and not sent

  constructor() {
    const send = () => this.report(teach("send", "", location.hash), "Sent to all pages.");
    const head = [el("h2", "Class"), this.here, button("Send this view", send, { id: "class-send-view" }), this.ask];
    this.root.append(this.lesson, this.round, this.status);
    if (room.teacher) this.root.prepend(el("div.b-lesson-head", head));
    document.addEventListener("submit", (event) => this.submit(event), true);
    on("question", () => this.paint());
    follow(() => this.paint());
  }

  /** @param {Promise<any>} answer @param {string} [text] */
  async report(answer, text = "") {
    this.status.textContent = (await answer).error ?? text;
  }

  paint() {
    const { round, teacher, here } = room;
    this.here.textContent = `${here} here`;
    const offers = this.paintLesson();
    this.paintRound();
    const isReady = question.tab === "masked-words" && (question.hidden?.length || question.text.includes("[MASK]"));
    disable(this.ask, !isReady && "Hide a word in the tab Masked words first.");
    const asks = Boolean(round?.open) && isAsked(),
      send = form()?.querySelector("#uncover");
    document.body.classList.toggle("class-asks", asks);
    if (asks && send) send.textContent = "Send my guess";
    this.root.hidden = !teacher && !offers && !round;
  }

  /** What the teacher sent, until the person closes it. Returns whether there is something. */
  paintLesson() {
    const { lesson: sent, teacher } = room,
      number = sent && room.kept.get("seen") !== sent.number ? sent.number : 0;
    if (number === this.drawn.lesson) return number > 0;
    this.drawn.lesson = number;
    const close = () => {
      room.kept.set("seen", sent?.number);
      this.paint();
    };
    const open = () => {
      show(sent?.link ?? "");
      close();
    };
    const title = sent?.title ? ["“", el("bdi", { translate: "yes" }, sent.title), "”"] : "a view";
    fill(
      this.lesson,
      number > 0 && [
        el("span", { role: "status" }, teacher ? "All pages are offered " : "Your teacher shows ", title),
        teacher
          ? button("Take it back", () => this.report(teach("send", "", "")), { id: "class-unsend" })
          : [button("Open", open, { id: "class-open" }), button("Not now", close, { id: "class-close" })],
      ],
    );
    return number > 0;
  }

  /** The question to the room. */
  paintRound() {
    const { round, teacher } = room;
    if (JSON.stringify(round) === this.drawn.round) return;
    this.drawn.round = JSON.stringify(round);
    keepingFocus(this.round, () => fill(this.round, round && this.asking(round)));
    if (round?.open && teacher) this.join();
    if (round && !round.open && this.covered === round.number) {
      this.covered = 0;
      this.uncover().catch(console.warn);
    }
  }

  /** @param {import("./state.js").Round} round */
  asking(round) {
    const { open, own, link } = round,
      { teacher } = room;
    const answer = () => {
      show(link);
      this.join();
    };
    const ofTeacher = [
      open && button("Uncover", () => this.report(teach("uncover")), { id: "class-uncover" }),
      button("End", () => this.report(teach("end")), { id: "class-end" }),
    ];
    return [
      el(
        "div.b-tools",
        el("strong", open ? "Which word goes here?" : "What the room guessed"),
        teacher ? ofTeacher : open && !own && button("Answer", answer, { id: "class-answer" }),
        el("span.b-model-detail", own && open && ARRIVED),
      ),
      (teacher || own || !open) && histogram(round),
    ];
  }

  /** Cover the guesses for the open question, once. */
  join() {
    if (!room.round || this.covered === room.round.number) return;
    this.covered = room.round.number;
    cover().catch(console.warn);
  }

  /** The teacher has closed the question: count the person's guess beside the model's. */
  async uncover() {
    const boxes = form(),
      own = room.round?.own;
    if (!boxes || !isAsked()) return;
    if (!own) {
      (await guessFirst())?.click();
      return;
    }
    boxes.querySelectorAll("input").forEach((box, k) => {
      box.value = own[k] ?? "";
    });
    this.isPassing = true;
    boxes.requestSubmit();
    this.isPassing = false;
  }

  /** The person's guess goes to the class, while it is asked. @param {Event} event */
  submit(event) {
    const boxes = form();
    if (!boxes || event.target !== boxes || this.isPassing || !room.round?.open || !isAsked()) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.covered = room.round.number;
    const words = [...boxes.querySelectorAll("input")].map(({ value }) => value);
    this.report(act("guess", room.round.number, words));
  }
}

/** @type {View} */
export function view(view) {
  view.append(new Bar().root);
  return function drawn() {};
}
