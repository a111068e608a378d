// Asks the server what the open tab shows: the answers that its tab declares with `Page.answer` in balcony/frame/page.py.

import { announce, latest, orError } from "./page.js";
import { question } from "./question.js";
import { answer } from "./server.js";
import { expect, lose, receive } from "../views.js";

const REST_MS = 100; // between an answer and the next question of its kind

/** @typedef {{tab: string, reads: string[], views: string[]}} Answer to what it reads of the question */

/**
 * @param {Record<string, Answer>} declared by name
 * @param {(tab: string) => void} change called for a tab whose form has to follow the question
 * @param {string} missing the server's sentence for a model that is not here; the page shows another one then
 */
export function answering(declared, change, missing) {
  /** @type {Record<string, string>} */
  const asked = {}; // by name, the parts of the question when it was last asked
  const fetching = {}; // by name

  /** @param {string} name @param {any} of */
  const parts = (name, of) => JSON.stringify(declared[name].reads.map((part) => of[part]));

  /** The question is due again, unless it has changed. @param {string} name @param {any} now */
  function forget(name, now) {
    if (asked[name] === parts(name, now)) delete asked[name];
  }

  /** @param {string} name @param {any} now the question */
  async function fetch(name, now) {
    const values = await orError(answer(name));
    const all = Object.values(values);
    if (values.error || all.some((value) => value?.error)) {
      forget(name, now);
      announce("failed", null);
    }
    if (values.error) return lose(declared[name].views, now.number, values.error);
    if (values[declared[name].views[0]]?.error === missing) return; // the shown model is gone
    receive(now, values);
    await new Promise((resolve) => setTimeout(resolve, REST_MS));
  }

  /** The names of the open tab's answers that are not to this question. @param {any} now */
  const due = (now) =>
    Object.keys(declared).filter((name) => declared[name].tab === now.tab && asked[name] !== parts(name, now));

  return {
    /** Ask for the answers that are due. @param {any} now the question */
    answer(now) {
      for (const name of due(now)) {
        const { views, tab } = declared[name];
        asked[name] = parts(name, now);
        if (!views.length) change(tab);
        else {
          expect(views, now.number);
          (fetching[name] ??= latest(fetch))(name, now);
        }
      }
    },
    /** The question cannot be asked. @param {string} why */
    fail(why) {
      for (const name of due(question)) {
        expect(declared[name].views, question.number);
        lose(declared[name].views, question.number, why);
      }
    },
  };
}
