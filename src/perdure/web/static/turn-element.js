// The elements of a turn: its article, with the list of its steps, and the badge of its status.

import { el } from "./dom.js";
import * as texts from "./texts.js";

export class StatusBadge {
  #kind = "";
  #busy = false;

  constructor() {
    this.text = "";
    this.element = el("span", { className: "badge", hidden: true });
  }

  /** @param {string} text */
  set(text, kind = "", busy = false) {
    this.text = text;
    this.#kind = kind;
    this.#busy = busy;
    this.restore();
  }

  /** Show what was set last. */
  restore() {
    this.render(this.text, this.#kind, this.#busy);
  }

  /**
   * Show something else for a while.
   *
   * @param {string} text
   * @param {string} kind
   */
  render(text, kind, busy = false) {
    this.element.className = `badge ${kind}${busy ? " busy" : ""}`;
    this.element.textContent = text;
    this.element.hidden = !text;
  }
}

/** The article of a turn, with the elements that change. */
export class TurnElement {
  /**
   * @param {string} turn
   * @param {HTMLElement} status
   */
  constructor(turn, status) {
    this.summary = el("summary", {}, texts.turn.steps);
    this.list = el("ol", { className: "steps" });
    this.steps = el("details", { className: "work", open: true, hidden: true }, this.summary, this.list);
    this.questions = el("div");
    this.body = el("div", { className: "said" });
    this.preview = el("div", { className: "said growing", hidden: true, "aria-live": "off" });
    const head = el("header", {}, el("span", { className: "author" }, texts.turn.author), status);
    this.root = el("article", { className: "turn", "aria-label": texts.turn.author }, head, this.steps, this.questions, this.body, this.preview);
    this.root.dataset.turn = turn;
  }

  /** @param {HTMLElement} element */
  addItem(element) {
    this.list.append(element);
    this.steps.hidden = false;
    this.updateSummary();
  }

  /**
   * Add a line between the steps that tells what happened to the turn.
   *
   * @param {string} kind
   * @param {string} text
   */
  addMilestone(kind, text) {
    const milestone = el("li", { className: `milestone ${kind}` }, text);
    this.addItem(milestone);
    return milestone;
  }

  /** @param {number} [milliseconds] how long the turn took, once it has ended */
  updateSummary(milliseconds) {
    const counts = { steps: this.#count("[data-call]"), interruptions: this.#count(".cut"), failures: this.#count(".failed") };
    this.summary.textContent = texts.turn.summary(counts, milliseconds);
  }

  /** Close the list of steps, unless it tells of an interruption or a failure. */
  collapse() {
    this.preview.hidden = true;
    this.steps.open = this.#count(".cut, .failed") > 0;
  }

  /** @param {string} selector */
  #count(selector) {
    return this.list.querySelectorAll(selector).length;
  }
}
