// The words of a sentence as buttons: press one to mask it.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  Balcony.views.tokenPicker = function (root, { trigger, setValue }) {
    let value = null;

    function toggle(index) {
      const picked = new Set(value.picked);
      if (!picked.delete(index)) picked.add(index);
      value = { ...value, picked: [...picked].sort((a, b) => a - b) };
      setValue(value);
      paint();
      trigger("input");
    }

    function button(word, index) {
      const item = el("button", { type: "button", class: "balcony-word", dir: "auto" }, word);
      item.addEventListener("click", () => toggle(index));
      return item;
    }

    function paint() {
      const masked = new Set(value.picked);
      [...root.firstChild.children].forEach((item, index) => item.setAttribute("aria-pressed", masked.has(index)));
    }

    return function draw(next) {
      // The same words keep their buttons, and with them the keyboard's place.
      const same = value && next && JSON.stringify(value.words) === JSON.stringify(next.words);
      value = next;
      if (!value || !value.words.length) {
        root.replaceChildren(el("p", { class: "balcony-empty" }, "The words of the sentence appear here."));
        value = null;
        return;
      }
      if (!same) {
        const group = el("div", { class: "balcony-words", role: "group", "aria-label": "Words to mask", dir: "auto" },
          ...value.words.map(button));
        Balcony.roam(group);
        root.replaceChildren(group);
      }
      paint();
    };
  };

  /** The best guesses of every mask, each with a bar. */
  Balcony.views.guesses = function (root, { trigger }) {
    Balcony.follow(root, () => trigger("submit"));

    function row([token, probability], own) {
      return el("li", { class: own ? "balcony-guess is-own" : "balcony-guess" },
        el("bdi", { class: "balcony-guess-word", title: token }, token),
        Balcony.bar(probability),
        el("span", { class: "balcony-number" }, Balcony.percent(probability)),
        el("span", { class: "balcony-mark" }, own ? "your word" : ""));
    }

    function card(mask, index) {
      const title = el("h3", {}, `Mask ${index + 1}`);
      if (mask.word) title.append(" for ", el("bdi", { class: "balcony-hidden-word" }, mask.word));
      return el("section", { class: "balcony-card" }, title,
        el("ol", {}, ...mask.guesses.map((guess) => row(guess, guess[0] === mask.answer))));
    }

    return function draw(value) {
      if (!value) return;
      const parts = value.notes.map((note) => Balcony.note(note));
      if (value.error) parts.unshift(Balcony.note(value.error, true));
      if (value.masks.length) parts.unshift(el("div", { class: "balcony-cards" }, ...value.masks.map(card)));
      if (value.hint) parts.unshift(el("p", { class: "balcony-empty" }, value.hint));
      root.replaceChildren(...parts);
    };
  };

  /** Whether the second sentence follows the first: a sentence, a bar and its two ends. */
  Balcony.views.verdict = function (root, { trigger }) {
    Balcony.follow(root, () => trigger("submit"));

    return function draw(value) {
      if (!value) return;
      if (value.error || value.hint) {
        root.replaceChildren(value.error ? Balcony.note(value.error, true) : el("p", { class: "balcony-empty" }, value.hint));
        return;
      }
      root.replaceChildren(
        el("p", { class: "balcony-verdict" }, value.sentence, " ", el("strong", {}, Balcony.percent(value.probability))),
        Balcony.bar(value.is_next),
        el("p", { class: "balcony-ends" },
          el("span", {}, `${value.labels[1]} ${Balcony.percent(1 - value.is_next)}`),
          el("span", {}, `${value.labels[0]} ${Balcony.percent(value.is_next)}`)),
        ...value.notes.map((note) => Balcony.note(note)));
    };
  };
})(window.Balcony);
