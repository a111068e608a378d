// The one way to ask the server (balcony/frame/answers.py): what is asked at once goes in one request, and each answer comes as
// soon as it is ready.

import { NO_ANSWER, visitor } from "./page.js";
import { question } from "./question.js";

/**
 * What is asked of one question.
 * @typedef {{question: Record<string, any>, asks: {ask: any[], resolve(value: any): void, reject(why: Error): void}[]}} Batch
 */
/** @type {Batch | null} */
let next = null;

/** Ask a function of the server, which also gets the question. @param {string} name @param {any[]} values @returns {Promise<any>} */
export function answer(name, ...values) {
  const { promise, resolve, reject } = Promise.withResolvers();
  /** @type {Batch} */
  const batch = next && next.question.number === question.number ? next : { question: { ...question }, asks: [] };
  if (batch !== next) setTimeout(() => send(batch));
  next = batch;
  batch.asks.push({ ask: [name, ...values], resolve, reject });
  return promise;
}

/** @param {Batch} batch */
async function send(batch) {
  if (next === batch) next = null;
  const { question, asks } = batch;
  try {
    await visitor.known;
    const response = await fetch(new URL("balcony/ask", document.baseURI), {
      method: "POST",
      body: JSON.stringify({ visitor: visitor.token, question, asks: asks.map(({ ask }) => ask) }),
    });
    if (response.ok) await read(response, ([index, value]) => asks[index].resolve(value));
  } catch (error) {
    console.warn(error);
  } finally {
    for (const { reject } of asks) reject(Error(NO_ANSWER)); // those that have no answer
  }
}

/** Read the lines of an answer as they come. @param {Response} response @param {(line: any) => void} take */
async function read(response, take) {
  const text = /** @type {ReadableStream} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await text.read(); !part.done; part = await text.read()) {
    const lines = (rest + part.value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) take(JSON.parse(line));
  }
}
