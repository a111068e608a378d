// What all pictures of attention heads share: settings, so that two models are shown alike, and how weights are packed.

/** What all pictures of heads on the page show alike, so that two models stand side by side under the same settings. */
export const shared = { picked: [0, 0], active: null, mode: "map", threshold: 0, filter: "all", mean: "heads", fact: "", sorted: false };
const news = new EventTarget();

export function change(update) {
  Object.assign(shared, update);
  news.dispatchEvent(new Event("change"));
}

/** Draw again when the settings change, as long as the view is on the page. */
export function listen(root, redraw) {
  function heard() {
    if (root.isConnected) redraw();
    else news.removeEventListener("change", heard);
  }
  news.addEventListener("change", heard);
}

export function bytesOf(text) {
  const characters = atob(text);
  const bytes = new Uint8Array(characters.length);
  for (let index = 0; index < bytes.length; index += 1) bytes[index] = characters.charCodeAt(index);
  return bytes;
}

/** The pixel of each byte: the accent colour, as opaque as the byte says; bytes grow with the root of the weight. */
export function pixels([red, green, blue]) {
  const colours = new Uint8ClampedArray(256 * 4);
  for (let byte = 0; byte < 256; byte += 1) colours.set([red, green, blue, byte], byte * 4);
  return new Uint32Array(colours.buffer);
}

