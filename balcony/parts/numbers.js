// Numbers as text.

/** @param {number} fraction */
export function percent(fraction) {
  const value = fraction * 100;
  return value > 0 && value < 1 ? "<1%" : value > 99 && value < 100 ? ">99%" : `${Math.round(value)}%`;
}

/** Two fractions, with as many digits as tell them apart. @param {number[]} fractions */
export function percents(...fractions) {
  const digits = [2, 3, 4, 5].map((most) => {
    const options = { minimumSignificantDigits: most, maximumSignificantDigits: most };
    return new Intl.NumberFormat("en", { style: "percent", ...options }).format;
  });
  const ways = [percent, ...digits].map((way) => fractions.map(way));
  return ways.find(([one, other]) => one !== other) ?? ways[0];
}

/** The remaining time. @param {number | null | undefined} seconds */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 60) return `${Math.ceil(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
}

/** The loss of a run, if there is one. @param {number | null | undefined} value */
export const loss = (value) => value?.toFixed(3) ?? "–";

/** @param {number[]} head its layer and its number there, from 0 */
export const headName = ([layer, head]) => `Layer ${layer + 1}, head ${head + 1}`;

/** A whole number with its thousands apart. */
export const count = new Intl.NumberFormat("en").format;

/** A number with its decimals, without a sign where it is rounded to 0. @param {number} value @param {number} [digits] */
export function fixed(value, digits = 2) {
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A number of a vector, with four decimals. @param {number} value */
export const number = (value) => fixed(value, 4);

/** A probability with four digits that count, however small it is. @param {number} p */
export const precise = (p) => p.toFixed(Math.min(100, Math.max(4, 3 - Math.floor(Math.log10(p || 1)))));

/** A change with its sign, unless it is rounded to 0. @param {number} change @param {number} [digits] */
export function signed(change, digits = 0) {
  const text = fixed(change, digits);
  return change > 0 && Number(text) !== 0 ? `+${text}` : text;
}

/** Whether numbers of heads, cells or parts are in a list. @param {number[][]} list @param {number[]} numbers */
export const has = (list, numbers) => list.some((each) => `${each}` === `${numbers}`);

/** A list without these numbers, or with them if it lacks them. @param {number[][]} list @param {number[]} numbers */
export const toggled = (list, numbers) =>
  has(list, numbers) ? list.filter((each) => `${each}` !== `${numbers}`) : [...list, numbers];

/** @param {string} text base64 */
export function bytesOf(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = characters.charCodeAt(index);
  return bytes;
}

/** @param {string} text base64 of float32 */
export const floats = (text) => new Float32Array(bytesOf(text).buffer);

/** The place of a step of a run between those of the kept steps around it, counted from 0. @param {number[]} steps @param {number} step */
export function placeOf(steps, step) {
  const k = steps.findLastIndex((each) => each <= step);
  return k === steps.length - 1 ? k : k + (step - steps[k]) / (steps[k + 1] - steps[k]);
}
