// The bar of a lesson: its list, the text of a step and something to answer. A step sets the page's question. The name of the
// lesson and the number of the step are parts of the question, so the address of the page carries them, and a link to what a
// person sees within a lesson opens the lesson too. The server checks every lesson, so this module draws only what is
// well-formed.

import { popover } from "../controls.js";
import { button, disable, el, fill, note, own, withTerms } from "../parts/elements.js";
import { on, visitor } from "../frame/page.js";
import { ask, onPart, parsed, question, restore } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { terms } from "./terms.js";

/** @typedef {{question: Record<string, any>, text: string, ask: string, choices: string[], right: number | null, answer: string}} Step see Step in balcony/lessons/lesson_bar.py */
/** @typedef {{title: string, steps: Step[], error?: string}} Lesson */

class LessonBar {
  /** @type {Lesson | null} */
  lesson = null;
  opened = ""; // name of the lesson that is open, or about to be
  isWhole = false; // its step sets the view when it opens
  isGoing = false;
  painted = ""; // the lesson and the step that are drawn
  problem = el("div");
  body = el("section.b-lesson", { id: "lesson-body", hidden: "" });

  /** @param {HTMLElement} root @param {ViewContext} context */
  constructor(root, { options }) {
    this.options = options;
    root.append(this.problem, this.body);
    const list = popover(
      "Lessons",
      { id: "lessons-list" },
      options.lessons.map(([name, title]) => button(title, () => this.begin(name), { id: `lesson-${name}` })),
    );
    onPart(["lesson"], () => this.open().catch(console.warn));
    on("restored", () => {
      // An address with nothing but a lesson shows the view of its step; one with more shows that.
      const parts = Object.keys(parsed(location.hash) ?? {});
      if (this.isGoing || !question.lesson || parts.some((part) => part !== "lesson" && part !== "at")) return;
      this.reopen();
    });
    visitor.known.then(() => {
      document.querySelector(".b-frame-tools")?.prepend(list);
      if (!location.hash && options.begin) this.begin(options.begin);
    });
  }

  /** @returns {Step | undefined} */
  get step() {
    return this.lesson?.steps[question.at];
  }

  /** A text of the lesson; one that a person wrote stays as it is. @param {string} text */
  theirs(text) {
    return question.lesson === this.options.begin ? own(text) : text;
  }

  async open() {
    if (question.lesson === this.opened) return this.paint();
    const name = (this.opened = question.lesson);
    /** @type {Lesson | null} */
    const found = name ? await answer("lesson", name) : null;
    if (name !== question.lesson) return;
    fill(this.problem, found?.error && note(found.error, true));
    this.lesson = found?.error ? null : found;
    if (found?.error) {
      this.opened = "";
      ask({ lesson: "", at: 0 });
    } else if (this.isWhole && this.lesson) this.go(question.at);
    else this.paint();
    this.isWhole = false;
  }

  /** Open the lesson of the question with the view of its step. */
  reopen() {
    this.opened = "";
    this.isWhole = true;
    this.open().catch(console.warn);
  }

  /** Open a lesson at its first step. @param {string} name */
  begin(name) {
    this.opened = "";
    this.isWhole = true;
    ask({ lesson: name, at: 0 });
    this.open().catch(console.warn);
  }

  /** Show a step with its view. @param {number} at */
  go(at) {
    if (!this.lesson) return;
    const { steps } = this.lesson,
      to = Math.min(at, Math.max(0, steps.length - 1));
    this.isGoing = true;
    restore({ ...steps[to]?.question, lesson: question.lesson, at: to });
    this.isGoing = false;
    this.paint();
  }

  /** Close the lesson. The page goes on showing what the person looks at. */
  close() {
    ask({ lesson: "", at: 0 });
    document.getElementById("lessons-list")?.focus({ preventScroll: true }); // the pressed button goes
  }

  paint() {
    const { lesson, step, body } = this;
    body.hidden = !lesson;
    if (!lesson) {
      this.painted = "";
      return;
    }
    body.ariaLabel = `Lesson: ${this.theirs(lesson.title)}`;
    fill(body, step && this.shown(lesson, step));
    // Another step comes above what a person has scrolled to.
    const now = `${question.lesson} ${question.at}`;
    if (now !== this.painted) body.scrollIntoView({ block: "nearest" });
    this.painted = now;
  }

  /** The buttons between steps. @param {Lesson} from */
  moves(from) {
    const back = button("Back", () => this.move(-1), { id: "lesson-back" }),
      next = button("Next", () => this.move(1), { id: "lesson-next" });
    disable(back, question.at === 0 && "This is the first step.");
    if (question.at < from.steps.length - 1) return [back, next];
    return [back, button("Finish", () => this.close(), { id: "lesson-end" })];
  }

  /** Go to another step; screen readers read its text. @param {number} by */
  move(by) {
    this.go(question.at + by);
    /** @type {HTMLElement} */ (this.body.querySelector(".b-lesson-text") ?? this.body).focus();
  }

  /** A step as a reader sees it. @param {Lesson} from @param {Step} step */
  shown(from, step) {
    return [
      el(
        "div.b-lesson-head",
        el("h2", { dir: "auto" }, this.theirs(from.title)),
        el("span", { id: "lesson-step" }, `Step ${question.at + 1} of ${from.steps.length}`),
        this.moves(from),
        button("Close", () => this.close(), { id: "lesson-close" }),
      ),
      el(
        "div.b-lesson-sides",
        el("p.b-lesson-text", { tabindex: -1, dir: "auto" }, withTerms(this.theirs(step.text))),
        step.ask && el("div", this.task(step)),
      ),
    ];
  }

  /** Something to answer with choices, or with the answer to be uncovered. @param {Step} step */
  task({ ask: task, answer, choices, right }) {
    const said = el("p", { role: "status", dir: "auto" });
    const names = choices.length ? choices.map((choice) => this.theirs(choice)) : answer ? ["Show the answer"] : [];
    const buttons = names.map((name, k) => {
      const isJudged = choices.length > 0 && right !== null,
        isWrong = isJudged && k !== right,
        judged = isWrong ? "Not this one. " : isJudged && "Right. ";
      const press = () => fill(said, judged, !isWrong && withTerms(this.theirs(answer)));
      return button(name, press, { id: `lesson-choice-${k}` });
    });
    return [el("p.b-lesson-ask", { dir: "auto" }, withTerms(this.theirs(task))), el("div.b-tools", buttons), said];
  }
}

/** @type {View} */
export function view(root, context) {
  terms(context.options.terms);
  new LessonBar(root, context);
}
