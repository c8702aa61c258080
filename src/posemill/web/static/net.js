// Asking the server: JSON, bytes, and asking again and again while somebody looks.

import { language } from "./words.js";

export class Refused extends Error {}

const BUSY_TRIES = 3;

async function ask(path, signal, tries = BUSY_TRIES) {
  let answer;
  try {
    answer = await fetch(path, {
      signal,
      headers: { "accept": "application/json", "accept-language": language() },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("the server does not answer");
  }
  if (answer.status === 503 && tries > 1) {
    // too many ask at once
    await new Promise((go) => {
      setTimeout(go, 1000);
    });
    return ask(path, signal, tries - 1);
  }
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(said.reason || `${answer.status}`);
  }
  return answer;
}

export const getJson = async (path, signal) => (await ask(path, signal)).json();
export const getBytes = async (path, signal) => (await ask(path, signal)).arrayBuffer();

/** Asks for something to be done; the answer as JSON. */
export async function postJson(path, content) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "accept-language": language() },
    body: JSON.stringify(content),
  });
  const said = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(said.reason || `${answer.status}`);
  return said;
}

/** `?a=1&b=2` of the values that are not empty. */
export function query(values) {
  const kept = Object.entries(values).filter(
    ([, value]) => value !== "" && value !== undefined && value !== null && value !== false,
  );
  return new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
}

/** Asks now and again until the signal ends it; `show` gets the answer if it is another one. */
export function poll(path, seconds, show, fail, signal) {
  let last = "";
  let timer = 0;
  async function once() {
    try {
      if (!document.hidden || !last) {
        const answer = await getJson(path, signal);
        const text = JSON.stringify(answer);
        if (text !== last && !signal.aborted) show(answer);
        last = text;
      }
    } catch (error) {
      if (signal.aborted) return;
      last = "";
      fail(error);
    }
    if (!signal.aborted) timer = setTimeout(once, seconds * 1000);
  }
  signal.addEventListener("abort", () => clearTimeout(timer));
  once();
}
