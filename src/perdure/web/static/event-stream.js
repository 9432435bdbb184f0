// The events of a chat. The stream breaks whenever the gateway goes; it is taken up behind the last event seen, so
// nothing is missed and nothing comes twice.

import { chatPath, fetchOk, HttpRefusal } from "./api.js";

const RETRY_MS = [250, 250, 500, 1000]; // milliseconds between tries
const SILENCE_MS = 40_000; // the gateway says something at least every 15 seconds
const HIDDEN_TAB_MS = 5000; // a tab that nobody looks at for so long lets go: browsers open only few connections at once

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/**
 * Follow a chat; returns how to stop.
 *
 * `onEvent(name, data)` gets each event, and "idle" when there is nothing new; `onConnection(yes)` each change. Whoever is
 * `onRefused(error, lost)` is not followed any more; `lost` if only the position in it is not known.
 */
export function followChat(chat, { onEvent, onConnection, onRefused }) {
  const position = new StreamPosition();
  const pauser = new HiddenTabPause(() => connection?.abort());
  let stopped = false;
  let connection = null;

  async function run() {
    for (let tries = 0; !stopped; tries++) {
      await pauser.untilVisible();
      if (stopped) return;
      connection = new AbortController();
      try {
        const response = await openStream(chat, position, connection);
        tries = 0;
        onConnection(true);
        await readStream(response, connection, position, onEvent);
      } catch (error) {
        if (error instanceof HttpRefusal) return onRefused(error, position.resumeId !== "");
      }
      if (stopped || pauser.isPaused) continue;
      onConnection(false);
      await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
    }
  }

  run();
  return () => {
    stopped = true;
    pauser.stop();
    connection?.abort();
  };
}

/** The quiet of a tab that nobody looks at. */
class HiddenTabPause {
  isPaused = false;
  #timer = 0;
  #resume = () => {};

  constructor(begin) {
    this.stop = () => {
      document.removeEventListener("visibilitychange", this.onVisibilityChange);
      this.#resume();
    };
    this.onVisibilityChange = () => {
      clearTimeout(this.#timer);
      if (document.visibilityState === "hidden")
        this.#timer = setTimeout(() => {
          this.isPaused = true;
          begin();
        }, HIDDEN_TAB_MS);
      else {
        this.isPaused = false;
        this.#resume();
      }
    };
    document.addEventListener("visibilitychange", this.onVisibilityChange);
  }

  untilVisible() {
    return this.isPaused ? new Promise((done) => (this.#resume = done)) : null;
  }
}

async function openStream(chat, position, connection) {
  const headers = position.resumeId ? { "Last-Event-ID": position.resumeId } : {};
  return await fetchOk(`${chatPath(chat)}/events`, { headers, signal: connection.signal });
}

async function readStream(response, connection, position, onEvent) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let left = "";
  for (;;) {
    const watch = setTimeout(() => connection.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(watch));
    if (done) return;
    const parts = (left + value).split("\n\n");
    left = parts.pop();
    for (const part of parts) emitEvent(part, position, onEvent);
  }
}

function emitEvent(part, position, onEvent) {
  if (part.startsWith(":")) {
    position.commit();
    onEvent("idle");
    return;
  }
  const fields = Object.fromEntries(part.split("\n").map((row) => [row.split(": ", 1)[0], row.slice(row.indexOf(": ") + 2)]));
  if (position.isNew(fields.id, fields.event)) onEvent(fields.event, JSON.parse(fields.data));
}

/** How far we have come. Several events may share an id, so an id is safe to begin behind once another one came. */
class StreamPosition {
  resumeId = "";
  #newestId = "";
  #namesAtNewestId = new Set();

  isNew(id, name) {
    if (!id) return true;
    if (id !== this.#newestId) {
      this.commit();
      this.#newestId = id;
      this.#namesAtNewestId.clear();
    }
    const fresh = !this.#namesAtNewestId.has(name);
    this.#namesAtNewestId.add(name);
    return fresh;
  }

  commit() {
    this.resumeId = this.#newestId;
  }
}
