// The bar of a class above all tabs: what the teacher sends, the question to the room, and its histogram.

import { bar as fill, disable, el } from "../parts/elements.js";
import { on } from "../frame/page.js";
import { question } from "../frame/question.js";
import { act, follow, room, show, teach } from "./state.js";

const FIND_MS = 10000;

/** @param {string} id @param {string} text @param {() => any} press */
export function button(id, text, press) {
  const item = el("button", { id, class: "b-small-button" }, text);
  item.addEventListener("click", press);
  return item;
}

/** How often each word was guessed, for each mask. @param {import("./state.js").Round} round */
function histogram({ bars, count }) {
  return bars.map((words, k) =>
    el(
      "table",
      { class: "class-histogram" },
      el("caption", {}, bars.length > 1 ? `Mask ${k + 1}: ` : "", `${count} ${count === 1 ? "guess" : "guesses"}`),
      el(
        "tbody",
        {},
        ...words.map(([word, times]) =>
          el(
            "tr",
            {},
            el("th", { scope: "row" }, el("bdi", {}, word)),
            el("td", {}, fill(times / words[0][1], "mlm")),
            el("td", { class: "b-number" }, `${times}`),
          ),
        ),
      ),
    ),
  );
}

/** Whether the page asks what the room is asked. */
function isAsked() {
  if (!room.round) return false;
  const parts = new URLSearchParams(room.round.link);
  return (
    question.tab === "masked-words" &&
    (parts.get("text") ?? "") === question.text &&
    (parts.get("pair") ?? "") === question.pair &&
    (parts.get("hidden") ?? "") === (question.hidden ?? []).join(",")
  );
}

/** @returns {Promise<HTMLInputElement | null>} */
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
let passing = false;

/** The teacher has closed the question: count the person's guess beside the model's. */
async function uncover() {
  const boxes = form();
  if (!boxes || !isAsked()) return;
  if (!room.round?.own) {
    (await guessFirst())?.click();
    return;
  }
  boxes.querySelectorAll("input").forEach((box, k) => {
    box.value = room.round?.own?.[k] ?? "";
  });
  passing = true;
  boxes.requestSubmit();
  passing = false;
}

/** What the teacher asks about: the sentences with the hidden words, for the model that comes with the program. */
function asked() {
  const { text, pair, hidden, model, recipe } = question;
  return `${new URLSearchParams({ tab: "masked-words", text, ...(pair && { pair }), hidden: (hidden ?? []).join(","), ...(model && !recipe && { model }) })}`;
}

/** @type {View} */
export function view(view) {
  const root = el("section", { class: "b-lesson", "aria-label": "Class", hidden: "" });
  view.append(root);
  const status = el("p", { role: "status" }),
    lesson = el("div", { class: "b-tools" }),
    round = el("div", { class: "class-round" });
  const here = el("span", { class: "b-model-detail" });
  /** @param {Promise<any>} answer @param {string} [text] */
  const report = async (answer, text = "") => {
    status.textContent = (await answer).error ?? text;
  };
  const sendView = button("class-send-view", "Send this view", () =>
    report(teach("send", "", location.hash), "Sent to all pages."),
  );
  const ask = button("class-ask", "Ask: what stands here?", () => report(teach("ask", `#${asked()}`)));
  root.append(
    ...(room.teacher ? [el("div", { class: "b-lesson-head" }, el("h2", {}, "Class"), here, sendView, ask)] : []),
    lesson,
    round,
    status,
  );

  let drawn = { lesson: -1, round: "" };
  let covered = 0; // number of the question for which this page has covered the guesses

  function paint() {
    const { lesson: sent, round: now } = room,
      isTeacher = Boolean(room.teacher);
    here.textContent = `${room.here} here`;
    const number = sent && room.kept.get("seen") !== sent.number ? sent.number : 0;
    if (number !== drawn.lesson) {
      drawn.lesson = number;
      const close = () => {
        room.kept.set("seen", sent?.number);
        paint();
      };
      lesson.replaceChildren(
        ...(!sent || !number
          ? []
          : [
              el(
                "span",
                { role: "status" },
                isTeacher ? "All pages are offered " : "Your teacher shows ",
                ...(sent.title ? ["“", el("bdi", { translate: "yes" }, sent.title), "”"] : ["a view"]),
              ),
              ...(isTeacher
                ? [button("class-unsend", "Take it back", () => report(teach("send", "", "")))]
                : [
                    button("class-open", "Open", () => {
                      show(sent.link);
                      close();
                    }),
                    button("class-close", "Not now", close),
                  ]),
            ]),
      );
    }
    const shown = JSON.stringify(now);
    if (shown !== drawn.round) {
      const had = round.contains(document.activeElement) ? document.activeElement?.id : "";
      drawn.round = shown;
      const seesBars = now && (isTeacher || now.own || !now.open);
      round.replaceChildren(
        ...(!now
          ? []
          : [
              el(
                "div",
                { class: "b-tools" },
                el("strong", {}, now.open ? "What stands here?" : "What the room thought stands here"),
                ...(isTeacher
                  ? [
                      ...(now.open ? [button("class-uncover", "Uncover", () => report(teach("uncover")))] : []),
                      button("class-end", "End", () => report(teach("end"))),
                    ]
                  : now.open && !now.own
                    ? [
                        button("class-answer", "Answer", () => {
                          show(now.link);
                          join();
                        }),
                      ]
                    : []),
                el(
                  "span",
                  { class: "b-model-detail" },
                  now.own && now.open
                    ? "Your guess has arrived; the model's is covered until your teacher uncovers it."
                    : "",
                ),
              ),
              ...(seesBars ? histogram(now) : []),
            ]),
      );
      if (had) document.getElementById(had)?.focus();
      if (now?.open && isTeacher) join();
      if (now && !now.open && covered === now.number) {
        covered = 0;
        uncover().catch(console.warn);
      }
    }
    const isReady = question.tab === "masked-words" && (question.hidden?.length || question.text.includes("[MASK]"));
    disable(ask, !isReady && "Hide a word in the tab Masked words first.");
    const asks = Boolean(now?.open) && isAsked(),
      send = form()?.querySelector("#uncover");
    document.body.classList.toggle("class-asks", asks);
    if (asks && send) send.textContent = "Send my guess";
    root.hidden = !isTeacher && !number && !now;
  }

  /** Cover the guesses for the open question, once. */
  function join() {
    if (!room.round || covered === room.round.number) return;
    covered = room.round.number;
    cover().catch(console.warn);
  }

  document.addEventListener(
    "submit",
    (event) => {
      const boxes = form();
      if (!boxes || event.target !== boxes || passing || !room.round?.open || !isAsked()) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      covered = room.round.number;
      report(
        act(
          "guess",
          room.round.number,
          [...boxes.querySelectorAll("input")].map(({ value }) => value),
        ),
      );
    },
    true,
  );
  on("question", paint);
  follow(paint);
  return function drawn() {};
}
