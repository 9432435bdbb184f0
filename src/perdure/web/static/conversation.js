// The conversation: messages in order, and the turns that answer them.

import { errorText } from "./api.js";
import { attachmentList } from "./attachments.js";
import { el, find, formatTime } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { TurnView } from "./turn-view.js";

const CONTENT_EVENTS = new Set(["plan", "question", "approval", "preview", "trouble"]); // to what a turn shows
const NEAR_END_PIXELS = 80; // pixels from the end: who is nearer wants to see what comes

export class Conversation {
  #turns = new Map();
  #messages = new Set(); // ids of the gateway
  #unsent = new Map(); // by our own id
  #resender;

  constructor(element, resender) {
    this.element = element;
    this.scroller = element.closest(".scroller");
    this.#resender = resender;
    this.newMessagesButton = find("#behind");
    this.newMessagesButton.addEventListener("click", () => this.#scrollToEnd());
    this.scroller.addEventListener("scroll", () => this.#isNearEnd() && (this.newMessagesButton.hidden = true));
    // What loads or opens later moves the end, too.
    new ResizeObserver(() => this.#followsEnd && this.#scrollToEnd()).observe(element);
  }

  #followsEnd = true;

  clear() {
    this.element.replaceChildren();
    this.#turns.clear();
    this.#messages.clear();
    this.#unsent.clear();
    this.element.ariaBusy = true; // nobody wants all of it read out
    this.newMessagesButton.hidden = true;
    this.#followsEnd = true;
  }

  /** What has happened so far is here; from now on it is news. */
  markLoaded() {
    this.element.ariaBusy = false;
  }

  /** The turn that has not ended, if there is one. */
  get openTurn() {
    return [...this.#turns.values()].find((turn) => turn.open);
  }

  showRuns(runs) {
    for (const turn of this.#turns.values()) turn.showRuns(runs);
  }

  // ── what is heard ─────────────────────────────────────────────────────────────────────────────────────────

  applyEvent(name, data) {
    this.#followsEnd = this.#isNearEnd();
    if (name === "message") this.#addMessage(data);
    else if (name === "notice") this.#add(el("p", { className: "notice" }, data.text));
    else if (name === "turn") this.#turnView(data.turn).applyMove(data);
    else this.#applyTurnEvent(name, data);
    if (this.#followsEnd) this.#scrollToEnd();
    else this.newMessagesButton.hidden = false;
  }

  #applyTurnEvent(name, data) {
    const turn = this.#turnView(data.turn);
    if (CONTENT_EVENTS.has(name)) this.#continueBelow(turn);
    turn[name]?.(data);
  }

  #addMessage({ id, author, text, at, turn, attachments, asks }) {
    if (this.#messages.has(id)) return;
    this.#messages.add(id);
    if (author === "user") this.#adoptUnsent(text, id) || this.#add(this.#ownMessage(text, at, id, attachmentList(attachments)));
    else if (turn) this.#continueBelow(this.#turnView(turn)).addReply(text, id, attachments, asks);
    else this.#add(gatewayMessage(text, at, id, attachments));
  }

  /** What we are sending may be heard of before its receipt comes: it is not shown twice. */
  #adoptUnsent(text, id) {
    const sent = [...this.#unsent.values()].find((each) => each.text === text && !each.arrived && !isRefused(each));
    if (!sent) return false;
    sent.arrived = id;
    this.#markArrived(sent, id);
    return true;
  }

  #markArrived({ element, state }, id) {
    state.remove();
    element.classList.remove("unsent", "refused");
    element.dataset.message = id;
  }

  #turnView(id) {
    if (!this.#turns.has(id)) {
      const turn = new TurnView(id);
      this.#turns.set(id, turn);
      this.#add(turn.element);
    }
    return this.#turns.get(id);
  }

  /** What comes of an answer that somebody wrote stands below their words. */
  #continueBelow(turn) {
    if (turn.answered && this.#isFollowed(turn.element)) this.#add(turn.continueInNewElement());
    turn.answered = false;
    return turn;
  }

  #isFollowed(element) {
    for (let next = element.nextElementSibling; next; next = next.nextElementSibling)
      if (next.matches(".mine:not(.unsent)")) return true;
    return false;
  }

  // ── what is written here ──────────────────────────────────────────────────────────────────────────────────

  /** A message that is on its way. */
  addUnsent(message) {
    const state = el("p", { className: "fate small quiet", role: "status" }, message.refused ?? "Sending…");
    const element = this.#ownMessage(message.text, message.at, "", attachmentList(message.files), state);
    element.classList.add("unsent");
    this.#unsent.set(message.id, { element, state, text: message.text, arrived: "" });
    this.element.append(element);
    if (message.refused) this.markRefused(message, { message: message.refused, hint: "" });
    this.#scrollToEnd();
  }

  /** The gateway is gone, or back. */
  setAway(yes) {
    for (const turn of this.#turns.values()) turn.setAway(yes);
    if (yes) this.showWaiting();
  }

  showWaiting() {
    for (const each of this.#unsent.values())
      if (!isRefused(each)) each.state.textContent = "Kept here; sent as soon as the gateway is back.";
  }

  /** The gateway has it. Its event may have come before this answer. */
  markAcknowledged(message, { message: id }) {
    const shown = this.#unsent.get(message.id);
    this.#unsent.delete(message.id);
    if (!shown || shown.arrived === id) return;
    if (this.#messages.has(id)) shown.element.remove();
    else if (shown.arrived) this.#add(this.#ownMessage(message.text, message.at, id)); // somebody else wrote the same words
    else this.#markArrived(shown, id);
    this.#messages.add(id);
  }

  markRefused(message, error) {
    const shown = this.#unsent.get(message.id);
    if (!shown) return;
    const done = (act) => () => {
      shown.element.remove();
      this.#unsent.delete(message.id);
      act();
    };
    const again = el("button", { className: "button slim", type: "button", onclick: done(() => this.#resender.resend(message)) }, "Send again");
    const discard = el("button", { className: "button slim plain", type: "button", onclick: done(() => this.#resender.discard(message)) }, "Discard");
    shown.element.classList.add("refused");
    shown.state.replaceChildren(`Not sent: ${errorText(error)} `, again, discard);
  }

  #ownMessage(text, at, id, ...more) {
    const words = text ? el("div", { className: "words" }, text) : null;
    const element = el("article", { className: "mine", "aria-label": "You", title: formatTime(at) }, words, ...more);
    element.dataset.message = id;
    return element;
  }

  // ── where the reader is ───────────────────────────────────────────────────────────────────────────────────

  /** What is on its way stays below what has arrived. */
  #add(element) {
    const first = [...this.#unsent.values()].find((each) => !each.arrived);
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

const isRefused = ({ element }) => element.classList.contains("refused");

/** The gateway's own words: answers to commands, notices that are kept. */
function gatewayMessage(text, at, id, attachments) {
  const element = el("article", { className: "gateway", "aria-label": "Gateway", title: formatTime(at) }, renderMarkdown(text), attachmentList(attachments));
  element.dataset.message = id;
  return element;
}
