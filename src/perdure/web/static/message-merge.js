// Decides which element shows a message. A message that this page sends is known twice: from its receipt, which
// answers the request, and from its event, which comes over the stream. Either may be first, and both may be repeated.

/** @import { ChatMessage } from "../page-types" */

/**
 * A message that this page is sending. `arrived` is the gateway's id, once an event with the same words has come.
 *
 * @typedef {{ text: string, arrived: string, isRefused: boolean }} Sent
 */

export class MessageMerge {
  /** @type {Set<string>} */
  #shownIds = new Set(); // ids of the gateway
  /** @type {Map<string, Sent>} */
  #sent = new Map(); // by the id that this page gave

  clear() {
    this.#shownIds.clear();
    this.#sent.clear();
  }

  /**
   * @param {string} ownId
   * @param {string} text
   */
  addSent(ownId, text) {
    this.#sent.set(ownId, { text, arrived: "", isRefused: false });
  }

  /** @param {string} ownId */
  markRefused(ownId) {
    const sent = this.#sent.get(ownId);
    if (sent) sent.isRefused = true;
  }

  /** @param {string} ownId */
  deleteSent(ownId) {
    this.#sent.delete(ownId);
  }

  /** The messages that wait for the gateway. */
  get waiting() {
    return [...this.#sent].filter(([, sent]) => !sent.isRefused).map(([ownId]) => ownId);
  }

  /** The first message that has not arrived: messages that have arrived stand above it. */
  get firstUnarrived() {
    return [...this.#sent].find(([, sent]) => !sent.arrived)?.[0];
  }

  /**
   * What to do about the event of a message: ignore a repeated one, let a message that this page is sending adopt
   * its id, or add the message.
   *
   * @param {Pick<ChatMessage, "id" | "author" | "text">} message
   * @returns {{ action: "ignore" | "add" } | { action: "adopt", ownId: string }}
   */
  mergeEvent({ id, author, text }) {
    if (this.#shownIds.has(id)) return { action: "ignore" };
    this.#shownIds.add(id);
    if (author !== "user") return { action: "add" };
    const found = [...this.#sent].find(([, sent]) => sent.text === text && !sent.arrived && !sent.isRefused);
    if (!found) return { action: "add" };
    found[1].arrived = id;
    return { action: "adopt", ownId: found[0] };
  }

  /**
   * What to do about the receipt of a message: nothing if its event was adopted; remove the element of this page if
   * the event was shown on its own; add the message once more if the element was given to the same words of somebody
   * else; otherwise let the element adopt the id.
   *
   * @param {string} ownId
   * @param {string} id
   * @returns {"ignore" | "remove" | "add" | "adopt"}
   */
  mergeReceipt(ownId, id) {
    const sent = this.#sent.get(ownId);
    this.#sent.delete(ownId);
    if (!sent || sent.arrived === id) return "ignore";
    const isShown = this.#shownIds.has(id);
    this.#shownIds.add(id);
    if (isShown) return "remove";
    return sent.arrived ? "add" : "adopt";
  }
}
