// The conversation: messages in order, and the turns that answer them.

/** @import { Attachment, ChatEvent, ChatMessage, Child, Problem, Runs, StoredMessage, Timestamp, TurnEvent, UnsentMessage } from "../page-types" */

import { errorText } from "./api.js";
import { attachmentList } from "./attachments.js";
import { el, need } from "./dom.js";
import { formatTime } from "./format.js";
import { renderMarkdown } from "./markdown.js";
import { MessageMerge } from "./message-merge.js";
import * as texts from "./texts.js";
import { TurnView } from "./turn-view.js";

const CONTENT_EVENTS = new Set(["plan", "question", "approval", "preview", "trouble"]); // they add to what a turn shows
const NEAR_END_PIXELS = 80; // a reader who is nearer to the end wants to see what comes

/** @typedef {{ element: HTMLElement, state: HTMLElement }} UnsentView */

export class Conversation {
  /** @type {Map<string, TurnView>} */
  #turns = new Map();
  #merge = new MessageMerge();
  /** @type {Map<string, UnsentView>} */
  #unsent = new Map(); // by the id that this page gave
  #resender;
  #followsEnd = true;

  /**
   * @param {HTMLElement} element
   * @param {{ resend: (message: UnsentMessage) => void, discard: (message: UnsentMessage) => void }} resender
   */
  constructor(element, resender) {
    this.element = element;
    this.scroller = /** @type {HTMLElement} */ (element.closest(".scroller"));
    this.#resender = resender;
    this.newMessagesButton = need("#behind");
    this.newMessagesButton.addEventListener("click", () => this.#scrollToEnd());
    this.scroller.addEventListener("scroll", () => this.#isNearEnd() && (this.newMessagesButton.hidden = true));
    // An image that loads or a step that is opened later moves the end, too.
    new ResizeObserver(() => this.#followsEnd && this.#scrollToEnd()).observe(element);
  }

  clear() {
    this.element.replaceChildren();
    this.#turns.clear();
    this.#merge.clear();
    this.#unsent.clear();
    this.element.ariaBusy = "true"; // a screen reader must not read out the whole past
    this.newMessagesButton.hidden = true;
    this.#followsEnd = true;
  }

  /** The past is complete; from now on a screen reader reads out what comes. */
  markLoaded() {
    this.element.ariaBusy = "false";
  }

  /** The turn that has not ended, if there is one. */
  get openTurn() {
    return [...this.#turns.values()].find((turn) => turn.open);
  }

  /** @param {Runs} runs */
  showRuns(runs) {
    for (const turn of this.#turns.values()) turn.showRuns(runs);
  }

  // ── events ────────────────────────────────────────────────────────────────────────────────────────────────

  /** @param {ChatEvent} event */
  applyEvent(event) {
    this.#followsEnd = this.#isNearEnd();
    if (event.name === "message") this.#addMessage(event.data);
    else if (event.name === "notice") this.#add(el("p", { className: "notice" }, event.data.text));
    else if (event.name === "turn") this.#turnView(event.data.turn).applyMove(event.data);
    else if (event.name !== "gateway") this.#applyTurnEvent(event);
    if (this.#followsEnd) this.#scrollToEnd();
    else this.newMessagesButton.hidden = false;
  }

  /** @param {TurnEvent} event */
  #applyTurnEvent(event) {
    const turn = this.#turnView(event.data.turn);
    if (CONTENT_EVENTS.has(event.name)) this.#continueBelow(turn);
    turn.applyEvent(event);
  }

  /** @param {ChatMessage} message */
  #addMessage(message) {
    const { id, author, text, at, turn, attachments, asks } = message;
    const merged = this.#merge.mergeEvent(message);
    if (merged.action === "ignore") return;
    if (merged.action === "adopt") this.#markArrived(this.#unsent.get(merged.ownId), id);
    else if (author === "user") this.#add(this.#ownMessage(text, at, id, attachmentList(attachments)));
    else if (turn) this.#continueBelow(this.#turnView(turn)).addReply(text, id, attachments, asks);
    else this.#add(gatewayMessage(text, at, id, attachments));
  }

  /**
   * @param {UnsentView | undefined} shown
   * @param {string} id
   */
  #markArrived(shown, id) {
    if (!shown) return;
    shown.state.remove();
    shown.element.classList.remove("unsent", "refused");
    shown.element.dataset.message = id;
  }

  /**
   * @param {string} id
   * @returns {TurnView}
   */
  #turnView(id) {
    let turn = this.#turns.get(id);
    if (!turn) {
      turn = new TurnView(id);
      this.#turns.set(id, turn);
      this.#add(turn.element);
    }
    return turn;
  }

  /**
   * After a written answer to a question, continue the turn in a new element below that answer.
   *
   * @param {TurnView} turn
   */
  #continueBelow(turn) {
    if (turn.answered && this.#isFollowed(turn.element)) this.#add(turn.continueInNewElement());
    turn.answered = false;
    return turn;
  }

  /** @param {Element} element */
  #isFollowed(element) {
    for (let next = element.nextElementSibling; next; next = next.nextElementSibling)
      if (next.matches(".mine:not(.unsent)")) return true;
    return false;
  }

  // ── messages of this page ─────────────────────────────────────────────────────────────────────────────────

  /**
   * Show a message that is being sent.
   *
   * @param {UnsentMessage} message
   */
  addUnsent(message) {
    const state = el("p", { className: "fate small quiet", role: "status" }, message.refused ?? texts.conversation.sending);
    const element = this.#ownMessage(message.text, message.at, "", attachmentList(message.files), state);
    element.classList.add("unsent");
    this.#unsent.set(message.id, { element, state });
    this.#merge.addSent(message.id, message.text);
    this.element.append(element);
    if (message.refused) this.markRefused(message, { message: message.refused, hint: "" });
    this.#scrollToEnd();
  }

  /**
   * The gateway is gone, or back.
   *
   * @param {boolean} isAway
   */
  setAway(isAway) {
    for (const turn of this.#turns.values()) turn.setAway(isAway);
    if (isAway) this.showWaiting();
  }

  showWaiting() {
    for (const ownId of this.#merge.waiting) {
      const shown = this.#unsent.get(ownId);
      if (shown) shown.state.textContent = texts.conversation.waiting;
    }
  }

  /**
   * The gateway has stored a message.
   *
   * @param {UnsentMessage} message
   * @param {StoredMessage} receipt
   */
  markAcknowledged(message, { message: id }) {
    const shown = this.#unsent.get(message.id);
    this.#unsent.delete(message.id);
    const action = this.#merge.mergeReceipt(message.id, id);
    if (action === "remove") shown?.element.remove();
    else if (action === "add") this.#add(this.#ownMessage(message.text, message.at, id));
    else if (action === "adopt") this.#markArrived(shown, id);
  }

  /**
   * The gateway has refused a message: show why, and buttons to send it again or to discard it.
   *
   * @param {UnsentMessage} message
   * @param {Problem} error
   */
  markRefused(message, error) {
    const shown = this.#unsent.get(message.id);
    if (!shown) return;
    const removing = (/** @type {(message: UnsentMessage) => void} */ act) => () => {
      shown.element.remove();
      this.#unsent.delete(message.id);
      this.#merge.deleteSent(message.id);
      act(message);
    };
    const { resend, discard } = this.#resender;
    const buttons = [
      el("button", { className: "button slim", type: "button", onclick: removing(resend) }, texts.conversation.resend),
      el("button", { className: "button slim plain", type: "button", onclick: removing(discard) }, texts.conversation.discard),
    ];
    this.#merge.markRefused(message.id);
    shown.element.classList.add("refused");
    shown.state.replaceChildren(texts.conversation.refused(errorText(error)), ...buttons);
  }

  /**
   * @param {string} text
   * @param {Timestamp} at
   * @param {string} id
   * @param {...Child} more
   */
  #ownMessage(text, at, id, ...more) {
    const words = text ? el("div", { className: "words" }, text) : null;
    const properties = { className: "mine", "aria-label": texts.conversation.you, title: formatTime(at) };
    const element = el("article", properties, words, ...more);
    element.dataset.message = id;
    return element;
  }

  // ── the position of the reader ────────────────────────────────────────────────────────────────────────────

  /**
   * Add an element above the messages that have not arrived yet.
   *
   * @param {HTMLElement} element
   */
  #add(element) {
    const first = this.#unsent.get(this.#merge.firstUnarrived ?? "");
    this.element.insertBefore(element, first?.element ?? null);
  }

  #isNearEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END_PIXELS;
  }

  #scrollToEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.newMessagesButton.hidden = true;
    this.#followsEnd = true;
  }
}

/**
 * A message of the gateway itself: the answer to a command, or a notice that is kept.
 *
 * @param {string} text
 * @param {Timestamp} at
 * @param {string} id
 * @param {Attachment[]} [attachments]
 */
function gatewayMessage(text, at, id, attachments) {
  const properties = { className: "gateway", "aria-label": texts.conversation.gateway, title: formatTime(at) };
  const element = el("article", properties, renderMarkdown(text), attachmentList(attachments));
  element.dataset.message = id;
  return element;
}
