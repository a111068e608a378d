// Words as buttons: press one to mask it; the guesses for what is masked; whether one sentence follows another.
(function (Balcony) {
  "use strict";
  const { el } = Balcony;

  Balcony.views.tokenPicker = function (root, { trigger, setValue }) {
    let value = null;

    function pick(picked) {
      value = { ...value, picked };
      setValue(value);
      paint();
      trigger("input");
    }

    function toggle(index) {
      const picked = new Set(value.picked);
      if (!picked.delete(index)) picked.add(index);
      pick([...picked].sort((a, b) => a - b));
    }

    /** A word, its pieces told apart by a thin line; a word that the model lacks is dotted. */
    function button(word, index) {
      const cuts = value.cuts[index];
      const pieces = cuts.map((cut, i) => el("span", { class: "balcony-piece" }, word.slice(cut, cuts[i + 1])));
      const known = value.known[index];
      const item = el("button", { type: "button", class: known ? "balcony-word" : "balcony-word is-unknown", dir: "auto",
        title: known ? null : "The model never learned this word" }, ...pieces);
      // The second click of a double click.
      item.addEventListener("click", (event) => (event.detail === 2 ? pick([index]) : toggle(index)));
      return item;
    }

    function paint() {
      const masked = new Set(value.picked);
      root.querySelectorAll("button").forEach((item, index) => item.setAttribute("aria-pressed", masked.has(index)));
    }

    return function draw(next) {
      // The same words keep their buttons, and with them the keyboard's place.
      const shape = ({ words, cuts, known, second }) => JSON.stringify([words, cuts, known, second]);
      const same = value && next && shape(value) === shape(next);
      value = next;
      if (!value || !value.words.length) {
        root.replaceChildren(el("p", { class: "balcony-empty" }, "The words of the sentence appear here."));
        value = null;
        return;
      }
      if (!same) {
        const buttons = value.words.map(button);
        const lines = [buttons.slice(0, value.second), buttons.slice(value.second)].filter((line) => line.length);
        const group = el("div", { role: "group", "aria-label": "Words to mask" },
          ...lines.map((line) => el("div", { class: "balcony-words", dir: "auto" }, ...line)));
        Balcony.roam(group);
        root.replaceChildren(group);
      }
      paint();
    };
  };

  /** The best guesses of every mask, each with a bar and a button that puts it into the sentence. */
  Balcony.views.guesses = function (root, { trigger }) {
    Balcony.follow(root, () => trigger("submit"));

    function row([token, probability], hidden, put) {
      const parts = [el("bdi", { class: "balcony-guess-word", title: token }, token), Balcony.bar(probability),
        el("span", { class: "balcony-number" }, Balcony.percent(probability)),
        el("span", { class: "balcony-mark" }, hidden ? "hidden" : "")];
      const item = el("li", { class: hidden ? "balcony-guess is-own" : "balcony-guess" }, ...parts);
      if (!put) return item;
      const button = el("button", { type: "button", class: "balcony-small balcony-put", "aria-label": `Put ${token} in` }, "put in");
      button.addEventListener("click", () => trigger("select", { ...put, token }));
      item.append(button);
      return item;
    }

    function own(guess) {
      const line = el("p", { class: "balcony-own" }, "My guess ", el("bdi", { class: "balcony-hidden-word" }, guess.word));
      if (guess.error) {
        line.append(`: ${guess.error}`);
        return line;
      }
      const several = guess.pieces.length > 1;
      line.append(`: ${Balcony.percent(guess.probability)}, `,
        several ? `its ${guess.pieces.length} pieces together; ranks ` : "rank ", guess.ranks.map((rank) => rank.toLocaleString("en")).join(", "));
      return line;
    }

    /** How likely a hidden word is by this model and by the one it stands beside. */
    function apart({ word, here, there }) {
      const points = Math.round(100 * (here - there));
      return el("p", { class: "balcony-empty" }, el("bdi", {}, word),
        `: ${Balcony.percent(here)} here, ${Balcony.percent(there)} by the other model, ${points > 0 ? "+" : points < 0 ? "−" : ""}${Math.abs(points)} points.`);
    }

    function card(mask, place, isBeside) {
      const title = el("h3", {}, `Mask ${place + 1}`);
      if (mask.word) title.append(" for ", el("bdi", { class: "balcony-hidden-word" }, mask.word));
      const several = mask.pieces.length > 1;
      const lists = mask.pieces.flatMap(({ answer, guesses }, piece) => [
        ...(several ? [el("h4", {}, `Piece ${piece + 1} of ${mask.pieces.length}`)] : []),
        el("ol", {}, ...guesses.map((guess) => row(guess, guess[0] === answer, isBeside ? null : { place, piece }))),
      ]);
      return el("section", { class: "balcony-card" }, title, ...lists, ...(mask.own ? [own(mask.own)] : []));
    }

    return function draw(value) {
      if (!value) return;
      const parts = [...(value.told || []).map(apart), ...value.notes.map((note) => Balcony.note(note))];
      if (value.error) parts.unshift(Balcony.note(value.error, true));
      if (value.masks.length) parts.unshift(el("div", { class: "balcony-cards" }, ...value.masks.map((mask, place) => card(mask, place, value.beside))));
      if (value.hint) parts.unshift(el("p", { class: "balcony-empty" }, value.hint));
      if (value.caption) parts.unshift(el("h3", { class: "balcony-caption", dir: "auto" }, value.caption));
      root.replaceChildren(...parts);
    };
  };

  /** Whether the second sentence follows the first: a sentence, a bar and its two ends. */
  Balcony.views.verdict = function (root, { trigger }) {
    Balcony.follow(root, () => trigger("submit"));

    /** One model's answer, under its name where there are two. */
    function answer(value) {
      const name = value.caption ? [el("h3", { dir: "auto" }, value.caption)] : [];
      if (value.error) return [...name, Balcony.note(value.error, true)];
      return [...name,
        el("p", { class: "balcony-verdict" }, value.sentence, " ", el("strong", {}, Balcony.percent(value.probability))),
        Balcony.bar(value.is_next),
        el("p", { class: "balcony-ends" },
          el("span", {}, `${value.labels[1]} ${Balcony.percent(1 - value.is_next)}`),
          el("span", {}, `${value.labels[0]} ${Balcony.percent(value.is_next)}`)),
        ...value.notes.map((note) => Balcony.note(note))];
    }

    return function draw(value) {
      if (!value) return;
      if (value.error || value.hint) {
        root.replaceChildren(value.error ? Balcony.note(value.error, true) : el("p", { class: "balcony-empty" }, value.hint));
        return;
      }
      root.replaceChildren(...answer(value), ...(value.other ? answer(value.other) : []),
        ...(value.other && !value.other.error ? [el("p", { class: "balcony-empty" },
          `The two models are ${Math.round(100 * Math.abs(value.is_next - value.other.is_next))} percentage points apart.`)] : []));
    };
  };
})(window.Balcony);
