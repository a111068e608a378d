// Closer looks at masked words: layer by layer, one word less, every word in turn.

import { el, roam } from "../parts/elements.js";
import { percent } from "../parts/numbers.js";

const FULL = 45;  // per cent of the colour at the most, so that letters stay readable

function tint(element, share, colour = "accent") {
  const strength = FULL * Math.min(1, Math.abs(share));
  element.style.background = `color-mix(in srgb, var(--balcony-${colour}) ${strength}%, transparent)`;
  return element;
}

/** Percentage points with a sign. */
function points(change) {
  const value = Math.round(change * 100);
  return value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0";
}

/** One line for each sentence. */
function sentences(words, item) {
  return [0, 1].map((sentence) => words.filter((word) => word.sentence === sentence)).filter((line) => line.length)
    .map((line) => el("div", { class: "balcony-words", dir: "auto" }, ...line.map(item)));
}

function lens(value) {
  const head = (text, attributes) => el("th", { scope: "col", ...attributes }, text);
  const rows = value.rows.map((row, layer) => el("tr", {},
    el("th", { scope: "row" }, layer ? `Layer ${layer}` : "Embeddings"),
    el("td", {}, el("bdi", {}, row.best[0]), ` ${percent(row.best[1])}`),
    el("td", { class: "balcony-number" }, row.rank.toLocaleString("en")),
    ...row.cells.map((share) => tint(el("td", { class: "balcony-number" }, percent(share)), share))));
  const names = value.candidates.map((name) =>
    el("th", { scope: "col", class: "balcony-number" }, el("bdi", { class: name === value.watched ? "balcony-hidden-word" : null }, name)));
  return el("div", { class: "balcony-scroll", tabindex: "0", role: "region", "aria-label": "Layer lens" },
    el("table", { class: "balcony-lens" },
      el("thead", {}, el("tr", {}, head(""), head("Best guess"),
        el("th", { scope: "col", class: "balcony-number" }, "Rank of ", el("bdi", { class: "balcony-hidden-word" }, value.watched)), ...names)),
      el("tbody", {}, ...rows)));
}

function mattered(value) {
  const most = Math.max(0.01, ...value.words.map((word) => Math.abs(word.change)));
  return el("div", {},
    el("p", {}, "With all words there, ", el("bdi", { class: "balcony-hidden-word" }, value.answer), ` has ${percent(value.probability)}.`),
    ...sentences(value.words, (word) => tint(
      el("span", { class: "balcony-seen" }, el("bdi", {}, word.word), el("small", { class: "balcony-number" }, points(word.change))),
      word.change / most, word.change < 0 ? "accent" : "second")));
}

/** The sentences by colour; the pressed word's rivals below. `open` is the number of that word. */
function sweep(value, open, press) {
  const rivals = el("div", { class: "balcony-rivals", "aria-live": "polite" });
  const buttons = value.words.map((word, index) => {
    const share = word.probability === null ? 0 : word.probability;
    const button = el("button", { type: "button", class: "balcony-seen", "aria-pressed": "false" },
      el("bdi", {}, word.word), el("small", { class: "balcony-number" }, word.probability === null ? "unknown" : percent(share)));
    button.addEventListener("click", () => show(index));
    return tint(button, share);
  });

  function show(index) {
    press(index);
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === index));
    const word = value.words[index];
    rivals.replaceChildren(...word.rivals.map((guesses, i) => el("p", {},
      "Instead of ", el("bdi", { class: "balcony-hidden-word" }, word.pieces[i]), ": ",
      ...guesses.flatMap(([token, share], at) => [at ? ", " : "", el("bdi", {}, token), ` ${percent(share)}`]))));
  }

  const group = el("div", { role: "group", "aria-label": "Words by how likely they are" },
    ...sentences(value.words, (word) => buttons[value.words.indexOf(word)]));
  if (buttons.length) {
    roam(group);
    if (open < buttons.length) show(open);
  }
  return el("div", {}, group, rivals);
}

export function closer(root, { trigger }) {
  let open = Infinity;
  let words = "";
  const parts = { lens, mattered, sweep: (value) => sweep(value, open, (index) => { open = index; }) };

  /** Which of several masked words is looked at. */
  function masks(value) {
    const buttons = value.masks.map((name, mask) => {
      const button = el("button", { type: "button", class: "balcony-small", "aria-pressed": mask === value.mask },
        `Mask ${mask + 1}: `, el("bdi", {}, name));
      button.addEventListener("click", () => trigger("select", { mask }));
      return button;
    });
    const group = el("div", { class: "balcony-export", role: "group", "aria-label": "The masked word to look at" }, ...buttons);
    roam(group);
    return group;
  }

  return function draw(value) {
    if (!value) return;
    const now = value.kind === "sweep" ? value.words.map((word) => word.word).join(" ") : "";
    if (now !== words) open = Infinity;
    words = now;
    root.replaceChildren(
      ...(value.masks && value.masks.length > 1 ? [masks(value)] : []),
      ...(value.kind ? [parts[value.kind](value)] : []),
      el("p", { class: "balcony-empty" }, value.text));
  };
}
