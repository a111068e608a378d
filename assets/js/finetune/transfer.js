// What pre-training bought: runs from random and from pretrained weights, their curves over one another, and a sentence.

import { button, el, progress } from "../parts/elements.js";
import { newChart } from "../parts/figures.js";
import { orError, visitor } from "../parts/page.js";
import { polling } from "../parts/polling.js";

const ASK_MS = 1000;

/** @type {View} */
export function transfer(root, { server }) {
  const title = el("h3", { dir: "auto" }),
    status = el("p.b-reason", { role: "status", id: "transfer-status" }),
    bar = progress("Progress of the comparison"),
    stop = button("Stop", () => orError(server.stop(visitor.token)).then(poll), { id: "transfer-stop" }),
    answer = el("p.b-answer", { id: "transfer-answer" }),
    how = el("p.b-empty"),
    box = el("div.b-chart.b-transfer", { id: "transfer-chart" }),
    chart = newChart(box);
  let number = 0,
    done = 0;
  root.append(title, status, bar.element, stop, answer, box, how);
  root.hidden = true;

  const poll = polling(async () => {
    await visitor.known;
    const news = await server.comparison(visitor.token, number, done),
      isActive = news.fraction !== undefined;
    root.hidden = Boolean(news.error || !news.number);
    if (root.hidden) return undefined;
    title.textContent = news.title;
    status.textContent = isActive ? `Run ${news.done + 1} of ${news.of}` : news.reason;
    bar.element.hidden = stop.hidden = !isActive;
    bar.show(news.fraction ?? 0);
    answer.textContent = news.answer ?? "";
    how.textContent = news.how ?? "";
    if (news.number !== number) box.hidden = true;
    if (news.figure) {
      box.hidden = false;
      chart.show(news.figure).catch(console.error);
    }
    ({ number, done } = news);
    return isActive ? ASK_MS : undefined;
  });

  return function draw(/** @type {object | null} */ value) {
    if (value) poll();
  };
}
