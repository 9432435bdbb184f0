// The events of a chat. The stream breaks whenever the gateway goes; it is taken up behind the last event seen, so
// nothing is missed and nothing comes twice.

import { chatPath, reach, Refused } from "./api.js";

const RETRY = [250, 250, 500, 1000]; // milliseconds between tries
const SILENCE = 40_000; // the gateway says something at least every 15 seconds

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** Follow a chat. `hear(name, data)` gets each event, `connected(yes)` each change. Returns how to stop. */
export function follow(chat, hear, connected) {
  const place = new Place();
  let stopped = false;
  let line = null;

  async function run() {
    for (let tries = 0; !stopped; tries++) {
      line = new AbortController();
      try {
        const response = await open(chat, place, line);
        tries = 0;
        connected(true);
        await read(response, line, place, hear);
      } catch (error) {
        if (error instanceof Refused) place.forget(); // erased meanwhile, say: begin again
      }
      if (stopped) return;
      connected(false);
      await pause(RETRY[Math.min(tries, RETRY.length - 1)]);
    }
  }

  run();
  return () => {
    stopped = true;
    line?.abort();
  };
}

async function open(chat, place, line) {
  const headers = place.safe ? { "Last-Event-ID": place.safe } : {};
  return await reach(`${chatPath(chat)}/events`, { headers, signal: line.signal });
}

async function read(response, line, place, hear) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const watch = setTimeout(() => line.abort(), SILENCE);
    const { value, done } = await reader.read().finally(() => clearTimeout(watch));
    if (done) return;
    const parts = (left + value).split("\n\n");
    left = parts.pop();
    for (const part of parts) take(part, place, hear);
  }
}

function take(part, place, hear) {
  if (part.startsWith(":")) {
    place.settle();
    return;
  }
  const fields = Object.fromEntries(part.split("\n").map((row) => [row.split(": ", 1)[0], row.slice(row.indexOf(": ") + 2)]));
  if (place.isNew(fields.id, fields.event)) hear(fields.event, JSON.parse(fields.data));
}

/** How far we have come. Several events may share an id, so an id is safe to begin behind once another one came. */
class Place {
  safe = "";
  #newest = "";
  #heard = new Set();

  isNew(id, name) {
    if (!id) return true;
    if (id !== this.#newest) {
      this.settle();
      this.#newest = id;
      this.#heard.clear();
    }
    const fresh = !this.#heard.has(name);
    this.#heard.add(name);
    return fresh;
  }

  settle() {
    this.safe = this.#newest;
  }

  forget() {
    this.safe = "";
  }
}
