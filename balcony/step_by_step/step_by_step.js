// Step by step: one stage at a time, with its picture, its shapes, its formula with numbers, and Python for it.

import { choose } from "../attention/heads.js";
import { summed } from "../parts/row.js";
import { keepingFocus, numbered, options, select } from "../controls.js";
import { KINDS } from "../parts/control.js";
import { button, draws, el, fill, note, notes, own, roam, showError, tools, withTerms } from "../parts/elements.js";
import { floats, number, percents } from "../parts/numbers.js";
import { orError } from "../frame/page.js";
import { ask, onPart, question } from "../frame/question.js";
import { answer } from "../frame/server.js";
import { STAGES, zeros } from "./stages.js";
import { taskStage } from "./task.js";

/** @typedef {import("./stages.js").Steps} Steps */
/** @typedef {import("../parts/elements.js").Child} Child */

const MAP = "map";
const IN_HEAD = ["projections", "scores", "weights", "context"];
const IN_LAYER = [...IN_HEAD, "joined", "feed-forward"];
const OF_TOKEN = ["embeddings", "projections", "context", "joined", "feed-forward", "layers"];

class StepByStep {
  /** @type {Steps} */
  value = /** @type {any} */ (null);
  presses = 0; // on numbers; another stage or answer counts too, since it closes what a press opened
  layer = select("Layer", [], (layer) => choose([Number(layer), question.head[1]]));
  head = select("Head", [], (head) => choose([question.head[0], Number(head)]));
  tokens = el("div.b-tools.b-tokens", { role: "group", "aria-label": "The token that is followed" });
  /** Those that the model has. @type {{key: string, title: string, text: string}[]} */
  stages = [];
  /** @type {HTMLButtonElement[]} */
  buttons = [];
  /** @type {HTMLElement} */
  row = el("div");
  line = el("div", { "data-no-picture": "" });
  of = select("Row", [], (at) => ask({ row: Number(at) }));
  which = tools(el("label", "Row ", this.of));
  shown = el("div");
  title = el("h3", { tabindex: -1 });
  text = el("p");
  body = el("div.b-stage");
  opened = el("div", { "aria-live": "polite" });
  answer = el("p", { "aria-live": "polite" });
  undo = el("div");
  answers = el("div.b-answers", this.answer, this.undo);
  notes = el("div");

  constructor(root, { options }) {
    this.root = root;
    /** @type {{key: string, title: string, text: string}[]} */
    this.all = options.stages;
    this.missing = options.missing;
    this.tasks = options.tasks;
    this.ofLayer = el("label", "Layer ", this.layer);
    this.ofHead = el("label", "Head ", this.head);
    const { line, which, tokens, title, text, body, opened, answers } = this,
      place = tools(this.ofLayer, this.ofHead);
    this.parts = [line, which, place, tokens, title, text, answers, body, opened, this.notes];
    this.choices = KINDS.lines({ label: "Choices, one on each line" }, "", (given) => ask({ choices: given }));
    this.lines = el("div.b-control", { "data-no-picture": "" }, this.choices.parts);
    this.lines.hidden = true;
    fill(root, this.lines, this.shown);
    onPart(["stage"], () => line.isConnected && this.show());
  }

  /** Show what numbers are the sums of. @param {string[]} names @param {number} index @param {string} [word] */
  open = async (names, index, word) => {
    const press = (this.presses += 1),
      found = await Promise.all(names.map((each) => orError(answer("inputs", each, index))));
    const sums = found.map(({ inputs, weights, bias, error }, k) =>
      error ? note(error, true) : summed(word ?? `${names[k]}[${index}]`, floats(inputs), floats(weights), bias),
    );
    if (press === this.presses) fill(this.opened, sums);
  };

  /** The buttons of the stages that a model has. @param {{key: string, title: string, text: string}[]} stages */
  layStages(stages) {
    if (this.stages.length === stages.length) return;
    this.stages = stages;
    this.buttons = stages.map(({ key, title }, k) => button(k ? `${k} ${title}` : title, () => ask({ stage: key })));
    const name = "Stages; the arrow keys go from one to the next";
    this.row = el("div.b-tools.b-stages", { role: "group", "aria-label": name }, this.buttons);
    roam(this.row);
    this.row.addEventListener("keydown", ({ key }) => {
      if (/^Arrow|^Home|^End/.test(key) && document.activeElement instanceof HTMLButtonElement)
        document.activeElement.click();
    });
    fill(this.line, this.row);
  }

  /** The number of the stage; the last one where the model has others at its end. */
  get at() {
    const at = ({ key }) => key === question.stage,
      found = this.stages.findIndex(at);
    return found < 0 && this.all.some(at) ? this.stages.length - 1 : Math.max(0, found);
  }

  draw(next) {
    if (next?.tokens || next?.hint) {
      this.lines.hidden = !next.has_choices;
      this.choices.show(question.choices ?? [], {});
    }
    if (next?.hint) return fill(this.shown, el("p.b-empty", next.hint));
    if (!next?.tokens) return showError(this.shown, next);
    this.value = next;
    this.layStages(this.all.filter(({ key }) => next.stages.includes(key)));
    const { rows = 0, row = 0, labels = [] } = next.task ?? {},
      named = numbered(rows).map(([k, name]) => [k, next.has_choices ? `${name} ${own(labels[k])}` : name]);
    options(this.of, /** @type {[number, string][]} */ (named), row);
    this.which.hidden = rows < 2;
    this.vectors = Object.fromEntries(Object.entries(next.vectors).map(([name, packed]) => [name, floats(packed)]));
    options(this.layer, numbered(next.layers), next.head[0]);
    options(this.head, numbered(next.heads), next.head[1]);
    if (this.tokens.dataset.tokens !== `${next.tokens}`) {
      fill(
        this.tokens,
        next.tokens.map((token, index) => button(el("bdi", token), () => ask({ token: index }))),
      );
      this.tokens.dataset.tokens = `${next.tokens}`;
      roam(this.tokens);
    }
    [...this.tokens.children].forEach((item, index) => (item.ariaPressed = `${index === next.token}`));
    if (!this.title.isConnected) fill(this.shown, this.parts);
    fill(this.notes, notes(next.notes));
    this.show();
  }

  show() {
    const { at, value, vectors = {}, missing } = this,
      { key, title, text } = this.stages[at];
    this.buttons.forEach((item, k) => {
      item.ariaCurrent = k === at ? "step" : "false";
      item.tabIndex = k === at ? 0 : -1;
    });
    const isInLayer = IN_LAYER.includes(key),
      isInHead = IN_HEAD.includes(key),
      layer = isInLayer ? `: layer ${value.head[0] + 1}` : "",
      head = isInHead ? `, head ${value.head[1] + 1}` : "",
      name = `${title}${layer}${head}`,
      isMap = key === MAP,
      focused = document.activeElement,
      isPressed = (key !== this.key && this.body.contains(focused)) || (!value.before && this.undo.contains(focused));
    this.key = key;
    this.ofLayer.hidden = !isInLayer;
    this.ofHead.hidden = !isInHead && key !== "joined"; // which has a switch for the head
    this.answers.hidden = isMap && !value.before;
    this.tokens.hidden = !OF_TOKEN.includes(key);
    this.title.textContent = isMap ? name : `${at} ${name}`;
    const shown = { value, vectors, missing, open: this.open, title: this.title.textContent };
    const [shape, ...parts] = (key === "task" ? taskStage : STAGES[key])(shown);
    fill(this.text, withTerms(text || this.tasks[value.task?.name ?? ""]), shape && [" ", el("span.b-empty", shape)]);
    const drawn = JSON.stringify([key, value.tokens]),
      draw = () => fill(this.body, parts);
    if (drawn === this.drawn) keepingFocus(this.body, draw);
    else draw();
    this.drawn = drawn;
    const { offsetLeft, offsetWidth } = this.buttons[at];
    this.row.scrollLeft = offsetLeft - this.row.offsetLeft - (this.row.clientWidth - offsetWidth) / 2;
    if (isPressed) this.title.focus();
    this.presses += 1;
    fill(this.opened);
    fill(this.answer, this.sentence());
    keepingFocus(this.undo, () => fill(this.undo, value.before && zeros(shown)));
  }

  /** The answers, and those of the whole model beside them. */
  sentence() {
    const { words, pair, before, labels, segments, tokens, task, carried } = this.value,
      read = [el("bdi", labels[0]), tokens.includes("[MASK]") && [" ", el("span", "with [MASK]")]],
      isPair = pair && segments.includes(1);
    /** @param {Child} name @param {number} share @param {number | null} [was] */
    const said = (name, share, was) => {
      const [now, whole] = percents(share, was ?? share);
      return [
        [name, `: ${now}`],
        typeof was === "number" && el("span", ` (${carried ? "without it" : "the whole model"}: ${whole})`),
      ];
    };
    if (task && task.number !== null) {
      const whole = before && el("span", ` (the whole model: ${number(before.number ?? 0)})`);
      return [el("span", "The model's number:"), ` ${number(task.number)}`, whole];
    }
    if (task?.answers.length) {
      const [[name, share]] = task.answers,
        of = task.name === "token-classification" && [el("bdi", tokens[this.value.token]), " → "],
        was = before && (before.answers?.find(([each]) => each === name)?.[1] ?? 0);
      return [el("span", "The model gives"), " ", said([of, el("bdi", name)], share, was)];
    }
    return [
      (words || isPair) && [el("span", "The model gives"), " "],
      words && said(el("bdi", words.answer), Math.exp(-words.loss), before?.probability),
      words && isPair && "; ",
      isPair && said(read, pair.probabilities[0], before?.is_next),
    ];
  }
}

/** @type {View} */
export const view = (root, context) => draws(new StepByStep(root, context));
