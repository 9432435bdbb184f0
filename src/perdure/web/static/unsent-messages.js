// The messages that the gateway has not acknowledged yet. The browser keeps them under an id that this page gave, so
// they survive a reload, and the gateway stores a message once however often it is sent.

/** @import { Attachment, Problem, StoredMessage, UnsentMessage } from "../page-types" */

import { GatewayUnavailable, asProblem, callApi, chatPath, errorText } from "./api.js";

const PREFIX = "perdure.unsent.";
const RETRY_MS = 2000;

const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * Store a message under its own key, so that two tabs never overwrite each other's.
 *
 * @param {UnsentMessage} message
 */
const saveMessage = (message) => localStorage.setItem(PREFIX + message.id, JSON.stringify(message));

/** @param {string} id */
const deleteMessage = (id) => localStorage.removeItem(PREFIX + id);

/**
 * The stored messages, oldest first.
 *
 * @param {Storage} [storage]
 * @returns {UnsentMessage[]}
 */
export function loadMessages(storage = localStorage) {
  const keys = Object.keys(storage).filter((key) => key.startsWith(PREFIX));
  const found = keys.map((key) => JSON.parse(storage.getItem(key) ?? "null"));
  return found.filter(Boolean).sort((a, b) => a.at - b.at);
}

export class UnsentMessages {
  #sending = false;
  #timer = 0;

  /**
   * @param {object} conversation
   * @param {(message: UnsentMessage, answer: StoredMessage) => void} conversation.markAcknowledged
   * @param {(message: UnsentMessage, error: Problem) => void} conversation.markRefused
   */
  constructor({ markAcknowledged, markRefused }) {
    this.markAcknowledged = markAcknowledged;
    this.markRefused = markRefused;
  }

  /** @param {string} chat */
  ofChat(chat) {
    return loadMessages().filter((message) => message.chat === chat);
  }

  /**
   * @param {string} chat
   * @param {string} text
   * @param {Attachment[]} [files]
   */
  add(chat, text, files = []) {
    /** @type {UnsentMessage} */
    const message = { id: newId(), chat, text, files, at: Date.now() };
    saveMessage(message);
    this.flush();
    return message;
  }

  /**
   * Send the words and files of a refused message as a new message.
   *
   * @param {UnsentMessage} message
   */
  resend(message) {
    deleteMessage(message.id);
    return this.add(message.chat, message.text, message.files);
  }

  /** @param {UnsentMessage} message */
  discard(message) {
    deleteMessage(message.id);
  }

  /** Send the waiting messages, oldest first; while the gateway is unavailable, try again later. */
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

  /** @param {UnsentMessage} message */
  async #send(message) {
    const more = message.files.length ? { attachments: message.files.map((file) => file.id) } : {};
    try {
      const answer = await callApi("POST", `${chatPath(message.chat)}/messages`, { id: message.id, text: message.text, ...more });
      deleteMessage(message.id);
      this.markAcknowledged(message, answer);
    } catch (error) {
      if (error instanceof GatewayUnavailable) throw error;
      saveMessage({ ...message, refused: errorText(asProblem(error)) });
      this.markRefused(message, asProblem(error));
    }
  }
}
