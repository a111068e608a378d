// All attention heads as a grid of small maps. The weights come once, as bytes, and are painted here:
// 144 heads of 64 tokens are 144 small canvases instead of 144 charts.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  function bytesOf(text) {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  }

  // As in bert_core.figures: opacity grows with the root of the weight, so that small weights can be told apart.
  const OPACITY = Uint8Array.from({ length: 256 }, (_, weight) => Math.round(255 * Math.sqrt(weight / 255)));

  /** Paint one head, a byte per weight: the accent colour, the more opaque the more weight. */
  function paint(canvas, bytes, offset, size, [red, green, blue]) {
    canvas.width = canvas.height = size;
    const image = new ImageData(size, size);
    for (let cell = 0; cell < size * size; cell += 1) {
      image.data.set([red, green, blue, OPACITY[bytes[offset + cell]]], cell * 4);
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  Balcony.views.headGrid = function (root, { trigger, options }) {
    Balcony.follow(root, () => trigger("submit"));
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
      root.replaceChildren(grid);
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
        paint(canvas, bytes, index * value.size * value.size, value.size, options.colour));
      mark(value.picked);
    };
  };
})(window.Balcony);
