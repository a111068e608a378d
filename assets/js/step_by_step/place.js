// The map of the model, small: a button that shows where on it a stage or a head is, and opens the map.

import { button, el, svg } from "../parts/elements.js";
import { onPart, openTab, question } from "../frame/question.js";

const CELL = 6,
  STEP = 8, // from one cell to the next
  DOWN = 4, // heads of a layer one below the other
  HEIGHT = DOWN * STEP;
export const IN_HEAD = ["projections", "scores", "weights", "context"];

/** The parts of the map that a stage is about, as their names in the picture. @param {string} stage @param {[number, number]} head */
function partsOf(stage, [layer, head]) {
  if (IN_HEAD.includes(stage)) return [`head ${layer}.${head}`];
  if (stage === "joined") return [`heads ${layer}`];
  if (stage === "feed-forward") return [`feed-forward ${layer}`];
  if (stage === "scores-of-words" || stage === "probabilities") return ["words"];
  return [stage];
}

/** @param {number} layers @param {number} heads @param {string} stage @param {[number, number]} head */
function picture(layers, heads, stage, head) {
  const here = partsOf(stage, head),
    across = Math.ceil(heads / DOWN) * STEP,
    wide = across + 14,
    end = 24 + layers * wide;
  /** @param {number} x @param {number} y @param {number} width @param {number} height @param {...string} names */
  const box = (x, y, width, height, ...names) =>
    svg("rect", { x, y, width, height, rx: 1, class: names.some((name) => here.includes(name)) ? "is-here" : null });
  const inLayer = (/** @type {number} */ l) => [
    Array.from({ length: heads }, (_, h) => {
      const x = 24 + l * wide + Math.floor(h / DOWN) * STEP;
      return box(x, (h % DOWN) * STEP, CELL, CELL, `head ${l}.${h}`, `heads ${l}`, "layers");
    }),
    box(24 + l * wide + across, 0, CELL, HEIGHT - 2, `feed-forward ${l}`, "layers"),
  ];
  const width = end + 12,
    size = { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, "aria-hidden": "true" };
  return svg(
    "svg",
    size,
    box(0, 0, CELL, HEIGHT - 2, "pieces"),
    box(10, 0, CELL, HEIGHT - 2, "embeddings"),
    Array.from({ length: layers }, (_, l) => inLayer(l)),
    box(end, 0, 10, 12, "next-sentence"),
    box(end, 16, 10, 14, "words"),
  );
}

/**
 * The button. @param {{layers: number, heads: number}} model @param {string} stage @param {[number, number]} head
 * @param {string} name of the part
 */
export function place({ layers, heads }, stage, head, name) {
  const press = () => openTab({ tab: "step-by-step", stage: "map" });
  return button([picture(layers, heads, stage, head), el("span", "On the map: ", el("b", name))], press, {
    class: "b-place b-small",
    title: "Show the map of the whole model",
    "data-no-picture": "",
  });
}

/** Where the shown head is. @type {View} */
export function view(root) {
  /** @type {{layers: number, heads: number} | null} */
  let model = null;
  const draw = () => {
    if (!model) return root.replaceChildren();
    const [layer, head] = [Math.min(question.head[0], model.layers - 1), Math.min(question.head[1], model.heads - 1)];
    root.replaceChildren(place(model, "weights", [layer, head], `layer ${layer + 1}, head ${head + 1}`));
  };
  onPart(["head"], draw);
  return (/** @type {{layers: number, heads: number} | null} */ value) => {
    model = value;
    draw();
  };
}
