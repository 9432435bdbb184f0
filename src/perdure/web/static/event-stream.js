// Follows the events of a chat. The stream breaks whenever the gateway goes; it is resumed behind the last event, so
// that no event is missed and none comes twice.

/** @import { StreamEvent } from "../page-types" */

import { HttpRefusal, chatPath, fetchOk } from "./api.js";
import { StreamPosition, parseBlock } from "./event-parser.js";

const RETRY_MS = [250, 250, 500, 1000];
const SILENCE_MS = 40_000; // the gateway sends something at least every 15 seconds
const HIDDEN_TAB_MS = 5000; // a tab that is hidden for longer disconnects: browsers open only few connections at once

/** @param {number} milliseconds */
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Follow a chat; returns how to stop.
 *
 * `onEvent` gets each event, and "idle" when there is nothing new; `onConnection` each change of the connection. After
 * `onRefused` the chat is not followed any more; `isPositionLost` says that only the position in it was refused.
 *
 * @param {string} chat
 * @param {object} listener
 * @param {(event: StreamEvent) => void} listener.onEvent
 * @param {(isConnected: boolean) => void} listener.onConnection
 * @param {(error: HttpRefusal, isPositionLost: boolean) => void} listener.onRefused
 */
export function followChat(chat, { onEvent, onConnection, onRefused }) {
  const position = new StreamPosition();
  const tab = new HiddenTabPause(() => connection.abort());
  let stopped = false;
  let connection = new AbortController();

  async function run() {
    for (let tries = 0; !stopped; tries++) {
      await tab.untilVisible();
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
      if (stopped || tab.isPaused) continue;
      onConnection(false);
      await pause(RETRY_MS[Math.min(tries, RETRY_MS.length - 1)]);
    }
  }

  run();
  return () => {
    stopped = true;
    tab.stop();
    connection.abort();
  };
}

/** Disconnects while the tab is hidden. */
class HiddenTabPause {
  isPaused = false;
  #timer = 0;
  #resume = () => {};
  #disconnect;

  /** @param {() => void} disconnect */
  constructor(disconnect) {
    this.#disconnect = disconnect;
    document.addEventListener("visibilitychange", this.#onVisibilityChange);
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisibilityChange);
    this.#resume();
  }

  /** @returns {Promise<void> | null} */
  untilVisible() {
    return this.isPaused ? new Promise((resolve) => (this.#resume = resolve)) : null;
  }

  #onVisibilityChange = () => {
    clearTimeout(this.#timer);
    if (document.visibilityState === "hidden") {
      this.#timer = setTimeout(() => {
        this.isPaused = true;
        this.#disconnect();
      }, HIDDEN_TAB_MS);
    } else {
      this.isPaused = false;
      this.#resume();
    }
  };
}

/**
 * @param {string} chat
 * @param {StreamPosition} position
 * @param {AbortController} connection
 */
async function openStream(chat, position, connection) {
  /** @type {Record<string, string>} */
  const headers = position.resumeId ? { "Last-Event-ID": position.resumeId } : {};
  return await fetchOk(`${chatPath(chat)}/events`, { headers, signal: connection.signal });
}

/**
 * @param {Response} response
 * @param {AbortController} connection
 * @param {StreamPosition} position
 * @param {(event: StreamEvent) => void} onEvent
 */
async function readStream(response, connection, position, onEvent) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const watch = setTimeout(() => connection.abort(), SILENCE_MS);
    const { value, done } = await reader.read().finally(() => clearTimeout(watch));
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) emitEvent(block, position, onEvent);
  }
}

/**
 * @param {string} block
 * @param {StreamPosition} position
 * @param {(event: StreamEvent) => void} onEvent
 */
function emitEvent(block, position, onEvent) {
  const parsed = parseBlock(block);
  if (!parsed) {
    position.commit();
    onEvent({ name: "idle" });
  } else if (position.isNew(parsed.id, parsed.event.name)) onEvent(parsed.event);
}
