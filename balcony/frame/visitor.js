// Whose page it is: the token that the server gave to this browser. All tabs of a browser are one visitor, also where they
// are opened at once or outlive the server: the first token that is kept holds for all of them.

import { announce, choice, on } from "./page.js";

const NAME = "visitor";
const TRAINED = "trained"; // the visitor who had runs

/** @type {View} */
export function view(root, { trigger, setValue, options }) {
  let token = choice(NAME);

  /** Come to the server as the visitor that this browser keeps. */
  function enter() {
    token = choice(NAME) ?? token;
    setValue(token);
    trigger("enter");
  }
  addEventListener("storage", () => {
    if ((choice(NAME) ?? token) !== token) enter();
  });
  on("snapshots", () => choice(TRAINED, token ?? ""));
  enter();
  return function draw(/** @type {string | null} */ given) {
    if (!given || given === token) return;
    const kept = choice(NAME);
    if (kept && kept !== token)
      enter(); // another tab was first
    else {
      if (token && token === choice(TRAINED)) announce("said", { text: options.lost, until: "closed" });
      token = choice(NAME, given) ?? given;
    }
  };
}
