// Short lists of facts: what a text gives, what a model is, which model the page looks at.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  Balcony.views.facts = function (root) {
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

  Balcony.views.modelLine = function (root) {
    const name = el("bdi", { class: "balcony-model-name" });
    const detail = el("span", { class: "balcony-model-detail" });
    root.append(el("span", { class: "balcony-model-label" }, "Looking at"), name, detail);
    let value = null;
    Balcony.bus.addEventListener("snapshot", ({ detail: news }) => {
      if (!value || value.follows !== news.run) return;
      detail.textContent = `step ${news.step}`;
      Balcony.bus.dispatchEvent(new CustomEvent("model"));
    });
    return function draw(next) {
      if (value && next && (value.name !== next.name || value.follows !== next.follows)) Balcony.tabs.postMessage(next.visitor);
      value = next;
      if (!value) return;
      name.textContent = value.name;
      detail.textContent = value.detail;
    };
  };
})(window.Balcony);
