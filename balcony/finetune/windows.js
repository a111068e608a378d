// The windows in which a context is read for the asked question, and the candidates of each before the answer is chosen.

import { scrolling, table } from "../controls.js";
import { exporter } from "../parts/downloads.js";
import { el, fill } from "../parts/elements.js";
import { fixed } from "../parts/numbers.js";

/** @import { ExportOptions } from "../parts/downloads.js" */

/** @typedef {{answer: string, start_token: number, end_token: number, start_logit: number, end_logit: number, score: number}} Candidate */
/** @typedef {{start: number, end: number, overlap: number, count: number, candidates: Candidate[]}} Window */
/** @typedef {{id?: string, most?: number, windows?: Window[], error?: string}} Windows see windows_value in balcony/finetune/windows.py */

const WINDOWS = ["Window", "From token", "To before", "Overlap", "Candidates"],
  CANDIDATES = ["Window", "Candidate", "Tokens", "Start + end logit", "Score"];

/** A folded part of the page. @param {ExportOptions} options of its button "Save" */
export function windowsPanel(options) {
  const content = el("div"),
    save = el("div", { id: options.id }),
    head = el("summary", "Windows and candidates"),
    element = el("details.b-preview-more", { id: options.of }, head, content, save);
  exporter(save, options);
  element.hidden = true;
  return {
    element,
    /** @param {Windows} found */
    show({ windows, id, most = 0 }) {
      element.hidden = !windows?.length;
      if (!windows?.length) return fill(content);
      const rows = windows.map(({ start, end, overlap, count }, k) => {
        return [`${k + 1}`, `${start}`, `${end}`, k ? `${overlap}` : "–", `${count}`];
      });
      const candidates = windows.flatMap((each, k) =>
        each.candidates.map((one) => [
          `${k + 1}`,
          el("td", el("bdi", one.answer)),
          `${one.start_token}–${one.end_token}`,
          `${fixed(one.start_logit, 3)} + ${fixed(one.end_logit, 3)}`,
          fixed(one.score, 3),
        ]),
      );
      const more = windows.some(({ count, candidates: { length } }) => count > length);
      return fill(
        content,
        el("p", "Tokens of the context are counted from 0; the overlap is what the window before has too."),
        el("p", "Question's id", ": ", id ? el("bdi", id) : "none, it was typed"),
        scrolling("Windows", table(WINDOWS, rows)),
        el("p", "The best start and end are chosen among these; the tokens are counted in their window, with [CLS]."),
        scrolling("Candidates", table(CANDIDATES, candidates, { numbers: 2 })),
        more && el("p.b-empty", `The first ${most} of each window; “Save” below has all.`),
      );
    },
  };
}
