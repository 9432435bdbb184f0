// What was written and is not acknowledged yet. It is kept in the browser under an id of our own, so it survives
// a reload, and sending it twice is sending it once.

import { GatewayUnavailable, callApi, chatPath, errorText } from "./api.js";

const PREFIX = "perdure.unsent.";
const RETRY_MS = 2000; // milliseconds

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Each message has a key of its own, so that two tabs never overwrite each other's. */
const saveMessage = (message) => localStorage.setItem(PREFIX + message.id, JSON.stringify(message));
const deleteMessage = (id) => localStorage.removeItem(PREFIX + id);

function loadMessages() {
  const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
  const found = keys.map((key) => JSON.parse(localStorage.getItem(key)));
  return found.filter(Boolean).sort((a, b) => a.at - b.at);
}

export class UnsentMessages {
  #sending = false;
  #timer = 0;

  /** `markAcknowledged(message, answer)` and `markRefused(message, error)` say what came of each. */
  constructor({ markAcknowledged, markRefused }) {
    this.markAcknowledged = markAcknowledged;
    this.markRefused = markRefused;
  }

  ofChat(chat) {
    return loadMessages().filter((message) => message.chat === chat);
  }

  add(chat, text, files = []) {
    const message = { id: newId(), chat, text, files, at: Date.now() };
    saveMessage(message);
    this.flush();
    return message;
  }

  /** The same words once more, as a new message. */
  resend(message) {
    deleteMessage(message.id);
    return this.add(message.chat, message.text, message.files);
  }

  discard(message) {
    deleteMessage(message.id);
  }

  /** Send what waits, oldest first; whatever finds nobody is sent again later. */
  async flush() {
    if (this.#sending) return;
    this.#sending = true;
    clearTimeout(this.#timer);
    try {
      for (let waiting; (waiting = loadMessages().filter((each) => !each.refused)).length; ) await this.#send(waiting[0]);
    } catch (error) {
      if (!(error instanceof GatewayUnavailable)) throw error;
      this.#timer = setTimeout(() => this.flush(), RETRY_MS);
    } finally {
      this.#sending = false;
    }
  }

  async #send(message) {
    const more = message.files.length ? { attachments: message.files.map((file) => file.id) } : {};
    try {
      const answer = await callApi("POST", `${chatPath(message.chat)}/messages`, { id: message.id, text: message.text, ...more });
      deleteMessage(message.id);
      this.markAcknowledged(message, answer);
    } catch (error) {
      if (error instanceof GatewayUnavailable) throw error;
      saveMessage({ ...message, refused: errorText(error) });
      this.markRefused(message, error);
    }
  }
}
