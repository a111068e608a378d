// The bar of a lesson: its list, the text of a step, something to answer, and the editor with which one is made. A step
// sets the page's question; what was opened and made stays while the browser tab is open. The name of the lesson and the
// number of the step are parts of the question, so the address of the page carries them, and a link to what a person sees
// within a lesson opens the lesson too. The lesson of a file has the name "file" there; the file itself is kept in the
// browser tab and no link carries it. The server checks every file, so this module draws only what is well-formed.

import { disable, el, nodes, note, own } from "../parts/elements.js";
import { save } from "../parts/downloads.js";
import { announce, keep, kept, on, orError, visitor } from "../frame/page.js";
import { ask, changes, parsed, question, restore } from "../frame/question.js";
import { terms } from "./terms.js";
import { tour } from "./tour.js";

const OWN = "file";

/**
 * @typedef {object} Step See read_lesson in ui/lessons.py.
 * @property {Record<string, any>} question
 * @property {string} text
 * @property {string} ask
 * @property {string[]} choices
 * @property {number | null} right
 * @property {string} answer
 * @property {string[]} hide
 */
/** @typedef {{title: string, steps: Step[], error?: string}} Lesson */

/** @param {string} id @param {string} text @param {() => void} press */
function button(id, text, press) {
  const item = el("button", { id, class: "b-small-button" }, text);
  item.addEventListener("click", press);
  return item;
}

/** @type {View} */
export function view(root, { server, options }) {
  /** @type {Lesson | null} */
  let lesson = null;
  let editing = false;
  let opened = ""; // name of the lesson that is open, or about to be
  let whole = false; // its step sets the view when it opens
  let going = false;
  const hiding = el("style", {});
  document.head.append(hiding);
  terms(options.terms);

  const file = el("input", { type: "file", accept: ".json", id: "lesson-file", hidden: "" });
  const problem = el("div", {});
  const list = el(
    "details",
    { class: "b-help", id: "lessons" },
    el("summary", { id: "lessons-list" }, "Lessons"),
    el(
      "div",
      {},
      ...options.lessons.map(([name, title]) => button(`lesson-${name}`, title, () => begin(name))),
      button("lesson-open", "Open a file…", () => file.click()),
      button("lesson-new", "Make a lesson", make),
      button("take-tour", "Tour of the page", () => {
        list.open = false;
        tour(options.tour);
      }),
    ),
  );
  const body = el("section", { class: "b-lesson", id: "lesson-body", hidden: "" });
  root.append(problem, body);
  list.addEventListener("keydown", ({ key }) => {
    if (key === "Escape") {
      list.open = false;
      list.querySelector("summary")?.focus();
    }
  });

  /** A text of the lesson; one that a person wrote stays as it is. @param {string} text */
  const theirs = (text) => ([OWN, options.begin].includes(question.lesson) ? own(text) : text);
  const step = () => /** @type {Step} */ (lesson?.steps[question.at]);
  /** @param {string} text */
  const complain = (text) => problem.replaceChildren(...(text ? [note(text, true)] : []));

  /** Open the lesson of the question. */
  async function open() {
    if (question.lesson === opened) {
      paint();
      return;
    }
    const name = (opened = question.lesson);
    await visitor.known;
    /** @type {Lesson | null} */
    let found = name === OWN ? kept("lesson", "") : name && (await server.lesson(visitor.token, name));
    if (name !== question.lesson) return;
    if (name === OWN && !found)
      found = {
        title: "",
        steps: [],
        error: "A link does not carry the lesson of a file. Open the file under Lessons.",
      };
    complain(found?.error ?? "");
    lesson = found?.error ? null : found || null;
    editing &&= name === OWN;
    if (found?.error) {
      opened = "";
      ask({ lesson: "", at: 0 });
    } else if (whole && lesson) go(question.at);
    else paint();
    whole = false;
  }

  /** Open a lesson of the program at its first step. @param {string} name */
  function begin(name) {
    list.open = editing = false;
    opened = "";
    whole = true;
    ask({ lesson: name, at: 0 });
    open().catch(console.warn);
  }

  /** @param {Lesson | null} found a lesson that no address names */
  function take(found) {
    keep("lesson", "", found);
    lesson = found;
    opened = OWN;
    complain("");
  }

  /** Show a step with its view. @param {number} at */
  function go(at) {
    if (!lesson) return;
    const last = Math.max(0, lesson.steps.length - 1),
      to = Math.min(at, last);
    going = true;
    restore({ ...lesson.steps[to]?.question, lesson: question.lesson, at: to });
    announce("restored", null);
    going = false;
    paint();
  }

  /** Begin a lesson of one's own, without a step. The page stays as it is. */
  function make() {
    list.open = false;
    editing = true;
    take({ title: "My lesson", steps: [] });
    ask({ lesson: OWN, at: 0 });
    paint();
  }

  /** Close the lesson. The page goes on showing what the person looks at. */
  function close() {
    lesson = null;
    editing = false;
    ask({ lesson: "", at: 0 });
    opened = "";
    paint();
    list.querySelector("summary")?.focus();
  }

  /** Draw the lesson, and hide what its step hides: not while it is made, for its maker sets the page. */
  function paint() {
    const hide = lesson && !editing ? (step()?.hide ?? []) : [];
    hiding.textContent = hide.map((part) => `${options.parts[part]} { display: none !important; }`).join("\n");
    body.hidden = !lesson;
    if (!lesson) return;
    body.setAttribute("aria-label", `Lesson: ${theirs(lesson.title)}`);
    body.replaceChildren(...(editing ? editor(lesson) : shown(lesson, step())));
  }

  /** The buttons between steps. @param {Lesson} from */
  function moves(from) {
    const back = button("lesson-back", "Back", () => move(-1)),
      next = button("lesson-next", "Next", () => move(1));
    disable(back, question.at === 0 && "This is the first step.");
    disable(next, question.at >= from.steps.length - 1 && "This is the last step.");
    return [back, next];
  }

  /** Go to another step; screen readers read its text. @param {number} by */
  function move(by) {
    go(question.at + by);
    /** @type {HTMLElement} */ (body.querySelector(".b-lesson-text") ?? body).focus();
  }

  /**
   * A step as a reader sees it: a text, and something to answer with choices, or with the answer to be uncovered.
   * @param {Lesson} from @param {Step} now
   */
  function shown(from, now) {
    const parts = [el("p", { class: "b-lesson-text", tabindex: -1, dir: "auto" }, theirs(now.text))];
    if (now.ask) {
      const answer = el("p", { role: "status", dir: "auto" });
      const choices = now.choices.length ? now.choices.map(theirs) : now.answer ? ["Show the answer"] : [];
      parts.push(
        el("p", { class: "b-lesson-ask", dir: "auto" }, theirs(now.ask)),
        el(
          "div",
          { class: "b-tools" },
          ...choices.map((choice, k) => {
            const judged =
              now.choices.length && now.right !== null ? (k === now.right ? "Right. " : "Not this one. ") : "";
            return button(`lesson-choice-${k}`, choice, () => {
              answer.replaceChildren(judged, ...(judged.startsWith("Not") ? [] : nodes(theirs(now.answer))));
            });
          }),
        ),
        answer,
      );
    }
    return [
      el(
        "div",
        { class: "b-lesson-head" },
        el("h2", { dir: "auto" }, theirs(from.title)),
        el("span", { id: "lesson-step" }, `Step ${question.at + 1} of ${from.steps.length}`),
        ...moves(from),
        button("lesson-close", "Close", close),
      ),
      ...parts,
    ];
  }

  /**
   * A step as its maker sees it: boxes for its texts, which change the lesson as they are typed in. "Add this view" puts
   * a step with the question of the page after the one that is shown. @param {Lesson} from
   */
  function editor(from) {
    const now = step();
    const area = (
      /** @type {string} */ label,
      /** @type {string} */ id,
      /** @type {string} */ value,
      /** @type {(text: string) => void} */ change,
    ) => {
      const box = el("textarea", { id, rows: 2, "aria-label": label, placeholder: label });
      box.value = value;
      box.addEventListener("input", () => {
        change(box.value);
        keep("lesson", "", from);
      });
      return box;
    };
    const title = area("Title", "lesson-title", from.title, (text) => {
      from.title = text;
    });
    title.rows = 1;
    const choices = (now?.choices ?? []).map((choice, k) => (k === now.right ? `* ${choice}` : choice)).join("\n");
    const changed = (/** @type {() => void} */ work) => () => {
      work();
      keep("lesson", "", from);
      paint();
    };
    return [
      el(
        "div",
        { class: "b-lesson-head" },
        title,
        el("span", { id: "lesson-step" }, now ? `Step ${question.at + 1} of ${from.steps.length}` : "No step yet"),
        ...moves(from),
        button(
          "lesson-add",
          "Add this view",
          changed(() => {
            const view = changes();
            delete view.lesson;
            delete view.at;
            from.steps.splice(question.at + (now ? 1 : 0), 0, {
              question: view,
              text: "",
              ask: "",
              choices: [],
              right: null,
              answer: "",
              hide: [],
            });
            ask({ at: now ? question.at + 1 : 0 });
          }),
        ),
        ...(now
          ? [
              button(
                "lesson-remove",
                "Remove step",
                changed(() => {
                  from.steps.splice(question.at, 1);
                  ask({ at: Math.max(0, question.at - 1) });
                }),
              ),
            ]
          : []),
        button("lesson-save", "Save as a file", () =>
          save(new Blob([JSON.stringify(from, written, 2)]), "lesson.json"),
        ),
        button("lesson-try", "Try it", () => {
          editing = false;
          go(0);
        }),
        button("lesson-close", "Close", close),
      ),
      ...(now
        ? [
            area("Text of this step", "lesson-text", now.text, (text) => {
              now.text = text;
            }),
            area("A question to answer", "lesson-ask", now.ask, (text) => {
              now.ask = text;
            }),
            area("Choices, one on each line, * before the right one", "lesson-choices", choices, (text) => {
              const lines = text
                  .split("\n")
                  .map((line) => line.trim())
                  .filter((line) => line.replace(/^\*\s*/, "")),
                right = lines.findIndex((line) => line.startsWith("*"));
              now.choices = lines.map((line) => line.replace(/^\*\s*/, ""));
              now.right = right < 0 ? null : right;
            }),
            area("The answer", "lesson-answer", now.answer, (text) => {
              now.answer = text;
            }),
            hides(from, now),
          ]
        : [el("p", { class: "b-empty" }, "Set the page as the lesson should show it, and press Add this view.")]),
    ];
  }

  /** Boxes for the parts of the page that a step hides. @param {Lesson} from @param {Step} now */
  function hides(from, now) {
    const boxes = Object.keys(options.parts).map((part) =>
      el("input", { type: "checkbox", value: part, checked: now.hide.includes(part) ? "" : null }),
    );
    const all = el(
      "div",
      { class: "b-tools", role: "group", "aria-label": "Hide" },
      "Hide: ",
      ...boxes.map((box) => el("label", { class: "b-toggle" }, box, box.value)),
    );
    all.addEventListener("change", () => {
      now.hide = boxes.filter(({ checked }) => checked).map(({ value }) => value);
      keep("lesson", "", from);
    });
    return all;
  }

  /** Parts that are empty stay out of a file. @param {string} key @param {any} value */
  const written = (key, value) =>
    value === null || value === "" || (Array.isArray(value) && !value.length && key !== "hidden") ? undefined : value;

  file.addEventListener("change", async () => {
    const chosen = file.files?.[0];
    list.open = false;
    if (!chosen) return;
    file.value = "";
    const found = /** @type {Lesson} */ (
      await orError(server.lesson(visitor.token, chosen.name, await chosen.slice(0, options.most).text()))
    );
    if (found.error) {
      complain(found.error);
      return;
    }
    editing = false;
    take(found);
    ask({ lesson: OWN, at: 0 });
    go(0);
  });

  on("question", ({ changed }) => {
    if (changed.has("lesson")) open().catch(console.warn);
  });
  on("restored", () => {
    // An address with nothing but a lesson shows the view of its step; one with more shows that.
    const parts = Object.keys(parsed(location.hash) ?? {});
    if (going || !question.lesson || parts.some((part) => part !== "lesson" && part !== "at")) return;
    opened = "";
    whole = true;
    open().catch(console.warn);
  });
  visitor.known.then(() => {
    document.querySelector(".b-frame-tools")?.prepend(list, file);
    if (!location.hash && options.begin) begin(options.begin);
    else if (!location.hash && !question.lesson) tour(options.tour, true);
  });
  return function drawn() {};
}
