// Plotly figures. Plotly.js is large: it is fetched once, from this server, for the first chart in an open tab. On a slow
// line, what the page needs comes first.

import { colour } from "../colours.js";
import { visitor } from "../frame/page.js";
import { question } from "../frame/question.js";
import { note, sized } from "./elements.js";

const CONFIG = { responsive: false, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
/** @type {Promise<PlotlyLibrary> | null} */
let loading = null;

/** @returns {Promise<PlotlyLibrary>} */
function fetched() {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = window.Balcony.plotly;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      loading = null;
      reject(new Error("The chart library did not load, so there is no chart. Load the page again."));
    };
    document.head.append(script);
  });
}

// The page begins with its first tab, before it opens that of the address.
const tabIsOpen = visitor.known.then(async () => {
  while (!document.getElementById(`tab-${question.tab}`)?.offsetWidth) await new Promise(requestAnimationFrame);
});

/** @typedef {{data: any[], layout: Record<string, any>}} Figure */

const CLEAR = "rgba(0,0,0,0)";
const FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

/** Text that Plotly shows as it is: no markup, no formula, no placeholder. @param {string} text */
export const literal = (text) =>
  text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll("$", "$\u200b")
    .replaceAll("%{", "%\u200b{");

/** @param {Record<string, any>} parts */
export const layoutOf = (parts) => ({
  paper_bgcolor: CLEAR,
  plot_bgcolor: CLEAR,
  font: { family: FAMILY, size: sized(13), color: colour("curve-other") },
  hoverlabel: { font: { family: FAMILY } },
  autosize: true,
  ...parts,
});

/** @param {Record<string, any>} parts */
export function axisOf(parts) {
  const grid = `${colour("curve-other")}2e`; // hardly seen
  return { gridcolor: grid, zerolinecolor: grid, linecolor: grid, zeroline: false, automargin: false, ...parts };
}

/**
 * A chart in `box`: `show` draws its figure anew. A closed tab, in which the box has no width, draws what has changed when
 * it opens.
 * @param {HTMLElement} box @param {() => Figure} figure a new one each time, since Plotly writes into what it is given
 * @param {() => void} [zoomed] after a person has zoomed
 * @param {(point: any) => void} [press] of a point
 */
export function newChart(box, figure, zoomed, press) {
  let [isDrawn, isStale] = [false, false];

  async function show() {
    await tabIsOpen;
    isStale = !box.offsetWidth;
    if (isStale) return;
    loading ||= fetched();
    const Plotly = await loading.catch((error) => {
      box.replaceChildren(note(error.message, true));
      throw error;
    });
    if (!isDrawn) box.replaceChildren();
    const { data, layout } = figure();
    const done = Plotly.react(box, data, layout, CONFIG);
    const drawn = /** @type {PlotlyBox} */ (box);
    if (zoomed && !isDrawn) drawn.on("plotly_relayout", (changed) => "xaxis.range[0]" in changed && zoomed());
    if (press && !isDrawn) drawn.on("plotly_click", ({ points }) => press(points[0]));
    isDrawn = true;
    await done;
  }

  new ResizeObserver(() => {
    if (!box.offsetWidth) return;
    if (isStale) show().catch(console.error);
    else if (isDrawn) window.Plotly.Plots.resize(box);
  }).observe(box);
  return { show };
}
