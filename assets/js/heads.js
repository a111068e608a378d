// All attention heads as a grid of small maps. The weights come once, as bytes, and are painted here:
// 144 heads of 64 tokens are 144 small canvases instead of 144 charts.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  function bytesOf(text) {
    const characters = atob(text);
    const bytes = new Uint8Array(characters.length);
    for (let index = 0; index < bytes.length; index += 1) bytes[index] = characters.charCodeAt(index);
    return bytes;
  }

  /**
   * The pixel of each weight from 0 to 255: the accent colour, the more opaque the more weight. As in
   * bert_core.figures, opacity grows with the root of the weight, so that small weights can be told apart.
   */
  function pixels([red, green, blue]) {
    const colours = new Uint8ClampedArray(256 * 4);
    for (let weight = 0; weight < 256; weight += 1) {
      colours.set([red, green, blue, 255 * Math.sqrt(weight / 255)], weight * 4);
    }
    return new Uint32Array(colours.buffer);
  }

  function paint(canvas, bytes, offset, size, colours) {
    canvas.width = canvas.height = size;
    const image = new ImageData(size, size);
    const cells = new Uint32Array(image.data.buffer);
    for (let cell = 0; cell < cells.length; cell += 1) cells[cell] = colours[bytes[offset + cell]];
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  Balcony.views.headGrid = function (root, { trigger, options }) {
    Balcony.follow(root, () => trigger("submit"));
    const colours = pixels(options.colour);
    const notes = el("div", {});
    let painted = null;

    function press(layer, head) {
      mark([layer, head]);
      trigger("select", { layer, head });
    }

    function mark(picked) {
      for (const item of root.querySelectorAll("button")) {
        item.setAttribute("aria-pressed", item.dataset.head === picked.join("."));
      }
    }

    function button(layer, head) {
      const name = `Layer ${layer + 1}, head ${head + 1}`;
      const item = el("button", { type: "button", class: "balcony-head", "aria-label": name, title: name,
        "data-head": `${layer}.${head}` }, el("canvas", {}));
      item.addEventListener("click", () => press(layer, head));
      return item;
    }

    function build({ layers, heads }) {
      const rows = Array.from({ length: layers }, (_, layer) =>
        el("div", { class: "balcony-heads-row" },
          el("span", { class: "balcony-heads-label", "aria-hidden": "true" }, `Layer ${layer + 1}`),
          ...Array.from({ length: heads }, (_, head) => button(layer, head))));
      const grid = el("div", { class: "balcony-heads", role: "group", "aria-label": "Attention heads" }, ...rows);
      grid.style.setProperty("--heads", heads);
      Balcony.roam(grid, heads);
      root.replaceChildren(grid, notes);
    }

    return function draw(value) {
      if (!value || !value.size) {
        painted = null;
        root.replaceChildren(value && value.error ? Balcony.note(value.error, true)
          : el("p", { class: "balcony-empty" }, "Type a sentence to see where each head looks."));
        return;
      }
      const shape = `${value.layers}.${value.heads}`;
      if (painted !== shape) build(value);
      painted = shape;
      const bytes = bytesOf(value.weights);
      root.querySelectorAll("canvas").forEach((canvas, index) =>
        paint(canvas, bytes, index * value.size * value.size, value.size, colours));
      mark(value.picked);
      notes.replaceChildren(...value.notes.map((note) => Balcony.note(note)));
    };
  };
})(window.Balcony);
