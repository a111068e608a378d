// Vectors as numbered points in two dimensions, with the same scale both ways.

import { colour } from "../colours.js";
import { el, sized } from "../parts/elements.js";
import { axisOf, layoutOf, literal, newChart } from "../parts/figures.js";

/** `labels` are shown on hover, `names` beside the numbers. @typedef {{title: string, labels: string[], names: string[], points: [x: number, y: number][]}} Points */

/** Where the name of each point stands: towards the middle of the picture, and away from the nearest height of another. @param {Points["points"]} points */
function beside(points) {
  const across = points.map(([x]) => x),
    least = Math.min(...across),
    width = Math.max(...across) - least || 1,
    order = [...points.keys()].sort((one, other) => points[one][1] - points[other][1]),
    heights = [-Infinity, ...order.map((i) => points[i][1]), Infinity];
  return points.map(([x], i) => {
    const k = order.indexOf(i),
      share = (x - least) / width,
      isUnder = heights[k + 2] - heights[k + 1] < heights[k + 1] - heights[k];
    return `${isUnder ? "bottom" : "top"} ${share < 1 / 3 ? "right" : share > 2 / 3 ? "left" : "center"}`;
  });
}

/** @param {Points} value */
function figure({ title, labels, names, points }) {
  const dots = {
    ...{ type: "scatter", mode: "markers+text", cliponaxis: false },
    x: points.map(([x]) => x),
    y: points.map(([, y]) => y),
    text: names.map((name, k) => literal(`${k + 1} ${name}`)),
    textposition: beside(points),
    textfont: { size: sized(13), color: colour("curve-other") },
    hovertext: labels.map((label, k) => literal(`${k + 1} ${label}`)),
    hovertemplate: "%{hovertext}<extra></extra>",
    marker: { size: 11, color: colour("point"), opacity: 0.8 },
  };
  const head = { text: title, font: { size: sized(15) }, x: 0, y: 1, yanchor: "top", pad: { t: 6, l: 4 } };
  const layout = layoutOf({
    title: head,
    margin: { l: sized(48), r: 24, t: sized(44), b: sized(36) },
    xaxis: axisOf({ zeroline: true }),
    yaxis: axisOf({ zeroline: true, scaleanchor: "x" }),
  });
  return { data: [dots], layout };
}

/** @type {View} */
export function view(root) {
  const box = el("div", { class: "b-chart" });
  root.append(box);
  /** @type {Points} */
  let value;
  const chart = newChart(box, () => figure(value));
  return function draw(/** @type {Points | null} */ given) {
    box.hidden = !given;
    if (!given) return;
    value = given;
    chart.show().catch(console.warn);
  };
}
