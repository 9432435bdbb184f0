// The conversation: messages in order, and the turns that answer them.

import { told } from "./api.js";
import { filesOf } from "./attaching.js";
import { el, find, moment } from "./dom.js";
import { markdown } from "./markdown.js";
import { Turn } from "./turn.js";

const ADDS = new Set(["plan", "question", "approval", "preview", "trouble"]); // to what a turn shows
const CLOSE = 80; // pixels from the end: who is nearer wants to see what comes

export class Log {
  #turns = new Map();
  #messages = new Set(); // ids of the gateway
  #unsent = new Map(); // by our own id
  #sender;

  constructor(element, sender) {
    this.element = element;
    this.scroller = element.closest(".scroller");
    this.#sender = sender;
    this.behind = find("#behind");
    this.behind.addEventListener("click", () => this.#toEnd());
    this.scroller.addEventListener("scroll", () => this.#atEnd() && (this.behind.hidden = true));
    // What loads or opens later moves the end, too.
    new ResizeObserver(() => this.#follows && this.#toEnd()).observe(element);
  }

  #follows = true;

  clear() {
    this.element.replaceChildren();
    this.#turns.clear();
    this.#messages.clear();
    this.#unsent.clear();
    this.element.ariaBusy = true; // nobody wants all of it read out
    this.behind.hidden = true;
    this.#follows = true;
  }

  /** What has happened so far is here; from now on it is news. */
  settled() {
    this.element.ariaBusy = false;
  }

  /** The turn that has not ended, if there is one. */
  get open() {
    return [...this.#turns.values()].find((turn) => turn.open);
  }

  counted(runs) {
    for (const turn of this.#turns.values()) turn.counted(runs);
  }

  // ── what is heard ─────────────────────────────────────────────────────────────────────────────────────────

  hear(name, data) {
    this.#follows = this.#atEnd();
    if (name === "message") this.#message(data);
    else if (name === "notice") this.#add(el("p", { className: "notice" }, data.text));
    else if (name === "turn") this.#turn(data.turn).move(data);
    else this.#happens(name, data);
    if (this.#follows) this.#toEnd();
    else this.behind.hidden = false;
  }

  #happens(name, data) {
    const turn = this.#turn(data.turn);
    if (ADDS.has(name)) this.#below(turn);
    turn[name]?.(data);
  }

  #message({ id, author, text, at, turn, attachments, asks }) {
    if (this.#messages.has(id)) return;
    this.#messages.add(id);
    if (author === "user") this.#adopt(text, id) || this.#add(this.#mine(text, at, id, filesOf(attachments)));
    else if (turn) this.#below(this.#turn(turn)).reply(text, id, attachments, asks);
    else this.#add(gatewaySays(text, at, id, attachments));
  }

  /** What we are sending may be heard of before its receipt comes: it is not shown twice. */
  #adopt(text, id) {
    const sent = [...this.#unsent.values()].find((each) => each.text === text && !each.arrived && !isRefused(each));
    if (!sent) return false;
    sent.arrived = id;
    this.#arrive(sent, id);
    return true;
  }

  #arrive({ element, state }, id) {
    state.remove();
    element.classList.remove("unsent", "refused");
    element.dataset.message = id;
  }

  #turn(id) {
    if (!this.#turns.has(id)) {
      const turn = new Turn(id);
      this.#turns.set(id, turn);
      this.#add(turn.element);
    }
    return this.#turns.get(id);
  }

  /** What comes of an answer that somebody wrote stands below their words. */
  #below(turn) {
    if (turn.answered && this.#isFollowed(turn.element)) this.#add(turn.goOn());
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
  sending(message) {
    const state = el("p", { className: "fate small quiet", role: "status" }, message.refused ?? "Sending…");
    const element = this.#mine(message.text, message.at, "", filesOf(message.files), state);
    element.classList.add("unsent");
    this.#unsent.set(message.id, { element, state, text: message.text, arrived: "" });
    this.element.append(element);
    if (message.refused) this.refused(message, { message: message.refused, hint: "" });
    this.#toEnd();
  }

  /** The gateway is gone, or back. */
  away(yes) {
    for (const turn of this.#turns.values()) turn.away(yes);
    if (yes) this.waits();
  }

  waits() {
    for (const each of this.#unsent.values())
      if (!isRefused(each)) each.state.textContent = "Kept here; sent as soon as the gateway is back.";
  }

  /** The gateway has it. Its event may have come before this answer. */
  acknowledged(message, { message: id }) {
    const shown = this.#unsent.get(message.id);
    this.#unsent.delete(message.id);
    if (!shown || shown.arrived === id) return;
    if (this.#messages.has(id)) shown.element.remove();
    else if (shown.arrived) this.#add(this.#mine(message.text, message.at, id)); // somebody else wrote the same words
    else this.#arrive(shown, id);
    this.#messages.add(id);
  }

  refused(message, error) {
    const shown = this.#unsent.get(message.id);
    if (!shown) return;
    const done = (act) => () => {
      shown.element.remove();
      this.#unsent.delete(message.id);
      act();
    };
    const again = el("button", { className: "button slim", type: "button", onclick: done(() => this.#sender.again(message)) }, "Send again");
    const discard = el("button", { className: "button slim plain", type: "button", onclick: done(() => this.#sender.discard(message)) }, "Discard");
    shown.element.classList.add("refused");
    shown.state.replaceChildren(`Not sent: ${told(error)} `, again, discard);
  }

  #mine(text, at, id, ...more) {
    const words = text ? el("div", { className: "words" }, text) : null;
    const element = el("article", { className: "mine", "aria-label": "You", title: moment(at) }, words, ...more);
    element.dataset.message = id;
    return element;
  }

  // ── where the reader is ───────────────────────────────────────────────────────────────────────────────────

  /** What is on its way stays below what has arrived. */
  #add(element) {
    const first = [...this.#unsent.values()].find((each) => !each.arrived);
    this.element.insertBefore(element, first?.element ?? null);
  }

  #atEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < CLOSE;
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.behind.hidden = true;
    this.#follows = true;
  }
}

const isRefused = ({ element }) => element.classList.contains("refused");

/** The gateway's own words: answers to commands, notices that are kept. */
function gatewaySays(text, at, id, attachments) {
  const element = el("article", { className: "gateway", "aria-label": "Gateway", title: moment(at) }, markdown(text), filesOf(attachments));
  element.dataset.message = id;
  return element;
}
