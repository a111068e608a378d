// The words in whose place others can stand.

import { button, el, roam } from "./elements.js";

/** Words as buttons, of which one is chosen. @param {[index: number, word: string][]} places @param {number | null} place @param {(place: number) => void} choose */
export function placesOf(places, place, choose) {
  const buttons = places.map(([index, word]) => {
    const attributes = { "aria-pressed": index === place, "data-key": `place ${index}` };
    return button(el("bdi", word), () => choose(index), attributes);
  });
  const attributes = { role: "group", "aria-label": "The word whose place others take", "data-no-picture": "" };
  return roam(el("div.b-tools", attributes, el("span", "In the place of:"), buttons));
}
