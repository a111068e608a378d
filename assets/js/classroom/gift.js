// What the teacher gives each page of a class: a seed, a learning rate or a text, which a press puts into the form of Train.

import { button, changes, el, fill, own } from "../parts/elements.js";
import { announce } from "../frame/page.js";
import { openTab } from "../frame/question.js";
import { act, room, teach } from "./state.js";

const OWN_TEXT = "Your teacher asks you for a text of your own.";
const IN_FORM = "It is in the form. Press Start.";
const PASTE = "Paste your text into the form. Then press Start.";
/** @type {Record<string, (value: string) => import("../parts/elements.js").Child>} */
const GIVES = {
  seed: (value) => `Your teacher gives you seed ${value}.`,
  rate: (value) => `Your teacher gives you learning rate ${value}.`,
  text: (value) => (value ? ["Your teacher gives you a text: “", own(value), "”"] : OWN_TEXT),
};
/** For the teacher. @type {Record<string, string>} */
const GIVEN = {
  seed: "Each page gets a seed of its own.",
  rate: "Each page gets a learning rate.",
  text: "Each page gets a text, or is asked for one.",
};

/** @param {(answer: Promise<any>) => void} report says why an action failed @param {() => void} repaint */
export function gift(report, repaint) {
  const element = el("div.b-tools", { id: "class-gift" });
  const isOther = changes();
  let filled = 0; // number of what is in the form; a reload empties that
  const isNew = () => Boolean(room.given) && !room.teacher && room.kept.get("given") !== room.given?.number;
  const answered = () => {
    room.kept.set("given", room.given?.number);
    repaint();
  };
  async function take() {
    const found = await act("given");
    if (found.error) return found;
    announce("fill", found);
    openTab({ tab: "train" });
    /** @type {HTMLElement | null} the form is folded in a small window */
    const folded = document.querySelector("#change-settings[aria-expanded=false]");
    if (found.text === "") folded?.click();
    filled = room.given?.number ?? 0;
    answered();
    return found;
  }
  function paint() {
    const { given, teacher } = room;
    if (!isOther(given, isNew(), filled)) return;
    if (!given) fill(element);
    else if (teacher) {
      const back = button("Take it back", () => report(teach("give", "", "")), { id: "class-take-back" });
      fill(element, el("span", GIVEN[given.kind], " ", `${given.count} have one.`), back);
    } else {
      const { kind, value = "" } = given,
        isOwn = kind === "text" && !value;
      const told = filled === given.number && el("b", isOwn ? PASTE : IN_FORM);
      fill(
        element,
        el("span", { role: isNew() ? "status" : null }, GIVES[kind](value), " ", told),
        button(isOwn ? "Open the form" : "Take it over", () => report(take()), { id: "class-take" }),
        isNew() && button("Not now", answered, { id: "class-take-later" }),
      );
    }
  }
  return { element, paint, isNew };
}
