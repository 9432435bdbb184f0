// The events of a chat. The stream breaks whenever the gateway goes; it is taken up behind the last event seen, so
// nothing is missed and nothing comes twice.

import { chatPath, reach, Refused } from "./api.js";

const RETRY = [250, 250, 500, 1000]; // milliseconds between tries
const SILENCE = 40_000; // the gateway says something at least every 15 seconds
const REST = 5000; // a tab that nobody looks at for so long lets go: browsers open only few connections at once

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/**
 * Follow a chat; returns how to stop.
 *
 * `hear(name, data)` gets each event, and "idle" when there is nothing new; `connected(yes)` each change. Whoever is
 * `refused(error, lost)` is not followed any more; `lost` if only the place in it is not known.
 */
export function follow(chat, { hear, connected, refused }) {
  const place = new Place();
  const rest = new Rest(() => line?.abort());
  let stopped = false;
  let line = null;

  async function run() {
    for (let tries = 0; !stopped; tries++) {
      await rest.over();
      if (stopped) return;
      line = new AbortController();
      try {
        const response = await open(chat, place, line);
        tries = 0;
        connected(true);
        await read(response, line, place, hear);
      } catch (error) {
        if (error instanceof Refused) return refused(error, place.safe !== "");
      }
      if (stopped || rest.wanted) continue;
      connected(false);
      await pause(RETRY[Math.min(tries, RETRY.length - 1)]);
    }
  }

  run();
  return () => {
    stopped = true;
    rest.end();
    line?.abort();
  };
}

/** The quiet of a tab that nobody looks at. */
class Rest {
  wanted = false;
  #timer = 0;
  #wake = () => {};

  constructor(begin) {
    this.end = () => {
      document.removeEventListener("visibilitychange", this.look);
      this.#wake();
    };
    this.look = () => {
      clearTimeout(this.#timer);
      if (document.visibilityState === "hidden")
        this.#timer = setTimeout(() => {
          this.wanted = true;
          begin();
        }, REST);
      else {
        this.wanted = false;
        this.#wake();
      }
    };
    document.addEventListener("visibilitychange", this.look);
  }

  over() {
    return this.wanted ? new Promise((done) => (this.#wake = done)) : null;
  }
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
    hear("idle");
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
}
