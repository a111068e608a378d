// What pre-training bought: runs from random and from pretrained weights, their curves over one another, and a sentence.

import { el } from "../parts/elements.js";
import { newChart } from "../parts/figures.js";
import { latest, orError, visitor } from "../parts/page.js";

const ASK_MS = 1000;

/** @type {View} */
export function transfer(root, { server }) {
  const title = el("h3", { dir: "auto" }),
    status = el("p", { class: "b-reason", role: "status", id: "transfer-status" });
  const fill = el("span", { class: "b-bar-fill" });
  const bar = el(
    "div",
    {
      class: "b-bar",
      role: "progressbar",
      "aria-label": "Progress of the comparison",
      "aria-valuemin": 0,
      "aria-valuemax": 100,
    },
    fill,
  );
  const stop = el("button", { class: "b-small-button", id: "transfer-stop" }, "Stop");
  const answer = el("p", { class: "b-answer", id: "transfer-answer" }),
    how = el("p", { class: "b-empty" });
  const box = el("div", { class: "b-chart b-transfer", id: "transfer-chart" });
  root.append(title, status, bar, stop, answer, box, how);
  const chart = newChart(box);
  let number = 0,
    done = 0,
    timer = 0;
  root.hidden = true;

  function take(news) {
    if (news.error || !news.number) {
      root.hidden = true;
      return;
    }
    root.hidden = false;
    const isActive = news.fraction !== undefined;
    title.textContent = news.title;
    status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}` : news.reason;
    bar.hidden = stop.hidden = !isActive;
    fill.style.width = `${100 * (news.fraction ?? 0)}%`;
    bar.setAttribute("aria-valuenow", `${Math.round(100 * (news.fraction ?? 0))}`);
    answer.textContent = news.answer ?? "";
    how.textContent = news.how ?? "";
    if (news.number !== number) box.hidden = true;
    if (news.figure) {
      box.hidden = false;
      chart.show(news.figure).catch(console.error);
    }
    ({ number, done } = news);
    if (isActive) timer = setTimeout(poll, ASK_MS);
  }

  const ask = latest(async () => {
    clearTimeout(timer);
    await visitor.known;
    take(await server.comparison(visitor.token, number, done));
  });
  const poll = () =>
    ask().catch((error) => {
      console.warn(error);
      timer = setTimeout(poll, 2 * ASK_MS);
    });
  stop.addEventListener("click", () => orError(server.stop(visitor.token)).then(poll));

  return function draw(/** @type {object | null} */ value) {
    if (value) poll();
  };
}
