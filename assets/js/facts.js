// Short lists of facts: what a text gives, what a model is. With the option `follows` a list asks for a new look when
// the model that the page looks at is another one.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  Balcony.views.facts = function (root, { trigger, options }) {
    if (options.follows) Balcony.follow(root, () => trigger("submit"));
    return function draw(value) {
      if (!value) return;
      const list = el("dl", { class: "balcony-facts" },
        ...value.facts.map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, el("bdi", {}, text)))));
      root.classList.toggle("is-stale", Boolean(value.error));
      root.replaceChildren(
        ...(value.facts.length ? [list] : []),
        ...(value.error ? [Balcony.note(value.error, true)] : []),
        ...value.notes.map((note) => Balcony.note(note)));
    };
  };
})(window.Balcony);
