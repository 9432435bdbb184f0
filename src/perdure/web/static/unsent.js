// What was written and is not acknowledged yet. It is kept in the browser under an id of our own, so it survives
// a reload, and sending it twice is sending it once.

import { Away, call, chatPath, told } from "./api.js";

const PREFIX = "perdure.unsent.";
const AGAIN = 2000; // milliseconds

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Each message has a key of its own, so that two tabs never overwrite each other's. */
const keep = (message) => localStorage.setItem(PREFIX + message.id, JSON.stringify(message));
const forget = (id) => localStorage.removeItem(PREFIX + id);

function kept() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  const found = keys.map((key) => JSON.parse(localStorage.getItem(key)));
  return found.filter(Boolean).sort((a, b) => a.at - b.at);
}

export class Unsent {
  #sending = false;
  #timer = 0;

  /** `acknowledged(message, answer)` and `refused(message, error)` say what came of each. */
  constructor({ acknowledged, refused }) {
    this.acknowledged = acknowledged;
    this.refused = refused;
  }

  of(chat) {
    return kept().filter((message) => message.chat === chat);
  }

  add(chat, text, files = []) {
    const message = { id: newId(), chat, text, files, at: Date.now() };
    keep(message);
    this.flush();
    return message;
  }

  /** The same words once more, as a new message. */
  again(message) {
    forget(message.id);
    return this.add(message.chat, message.text, message.files);
  }

  discard(message) {
    forget(message.id);
  }

  /** Send what waits, oldest first; whatever finds nobody is sent again later. */
  async flush() {
    if (this.#sending) return;
    this.#sending = true;
    clearTimeout(this.#timer);
    try {
      for (let waiting; (waiting = kept().filter((each) => !each.refused)).length; ) await this.#send(waiting[0]);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      this.#timer = setTimeout(() => this.flush(), AGAIN);
    } finally {
      this.#sending = false;
    }
  }

  async #send(message) {
    const more = message.files.length ? { attachments: message.files.map((file) => file.id) } : {};
    try {
      const answer = await call("POST", `${chatPath(message.chat)}/messages`, { id: message.id, text: message.text, ...more });
      forget(message.id);
      this.acknowledged(message, answer);
    } catch (error) {
      if (error instanceof Away) throw error;
      keep({ ...message, refused: told(error) });
      this.refused(message, error);
    }
  }
}
