// Covers what gives an answer away, in all views at once, while a person or a class is to guess it first. Which views those
// are stands in assets/css/balcony.css, in one list for each kind of answer.

/** Who covers the hidden words, and whether one sentence follows the other. */
const covering = { word: new Set(), pair: new Set() };

/** @param {keyof typeof covering} answer @param {string} who @param {boolean} isCovered */
export function cover(answer, who, isCovered) {
  if (isCovered) covering[answer].add(who);
  else covering[answer].delete(who);
  document.body.classList.toggle(`covers-${answer}`, covering[answer].size > 0);
}
