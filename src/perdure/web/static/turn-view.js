// Shows one turn of the agent: its steps, its questions, its interruptions, its outcome and its answer.

/** @import { Approval, Attachment, Decision, Plan, Preview, Question, Runs, StepEnded, StepStarted, Timestamp, Trouble, TurnMove, TurnMoves } from "../page-types" */

import { attachmentList } from "./attachments.js";
import { el, formatClock, formatDuration, plural } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { QuestionCard } from "./question-card.js";
import { StepView } from "./step-view.js";

const FINAL_MOVES = new Set(["finished", "failed", "cancelled", "undone"]);
const TROUBLE_TEXT = "Trouble with the model";
/** @type {Record<string, string>} */
const INTERRUPTION_TEXTS = {
  restart_interrupted: "Cut off: the gateway died in the middle of this.",
  restart_timeout: "Cut off by a restart of the gateway.",
  shutdown_timeout: "Cut off: the gateway was stopped.",
  lease_lost: "Cut off: another gateway took over.",
};
/** @type {Record<string, string>} */
const CANCELLATION_TEXTS = {
  suspended: "Set aside",
  superseded: "Left behind",
  replaced: "Left behind",
  reset: "Left behind",
  dropped: "Given up",
  cleared: "",
};

/** @typedef {[text: string, kind: string, busy: boolean]} Status */

/** The article of a turn, with the elements that change. */
class TurnElement {
  /**
   * @param {string} turn
   * @param {HTMLElement} status
   */
  constructor(turn, status) {
    this.summary = el("summary", {}, "Steps");
    this.list = el("ol", { className: "steps" });
    this.steps = el("details", { className: "work", open: true, hidden: true }, this.summary, this.list);
    this.questions = el("div");
    this.body = el("div", { className: "said" });
    this.preview = el("div", { className: "said growing", hidden: true, "aria-live": "off" });
    const head = el("header", {}, el("span", { className: "author" }, "Agent"), status);
    this.root = el("article", { className: "turn", "aria-label": "Agent" }, head, this.steps, this.questions, this.body, this.preview);
    this.root.dataset.turn = turn;
  }

  /** @param {string} selector */
  count(selector) {
    return this.list.querySelectorAll(selector).length;
  }

  /** Close the list of steps, unless it tells of an interruption or a failure. */
  collapse() {
    this.preview.hidden = true;
    this.steps.open = this.count(".cut, .failed") > 0;
  }
}

export class TurnView {
  /** @type {Map<string, StepView>} */
  #steps = new Map(); // by call
  /** @type {Map<string, QuestionCard>} */
  #questions = new Map(); // by the id of the question
  /** @type {Status} */
  #statusShown = ["", "", false];
  #beganAt = 0;
  #interruptions = 0;
  #isInterrupted = false; // and not resumed yet
  /** @type {HTMLElement | null} */
  #heldMilestone = null; // says why recovery holds the turn, while it does

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.open = false;
    this.answered = false; // a moment ago: the turn may continue in another element, below the answer
    this.status = el("span", { className: "badge", hidden: true });
    this.shown = new TurnElement(id, this.status);
  }

  get element() {
    return this.shown.root;
  }

  /** Leave the present element as it is, and continue in a new one. */
  continueInNewElement() {
    const { state = "" } = this.element.dataset;
    this.shown.collapse();
    this.shown = new TurnElement(this.id, this.status);
    this.element.dataset.state = state;
    return this.element;
  }

  // ── the moves of the turn ─────────────────────────────────────────────────────────────────────────────────

  /** @param {TurnMove} event */
  applyMove(event) {
    const { move, at } = event;
    this.#clearHeld();
    this.open = !FINAL_MOVES.has(move);
    this.element.dataset.state = move;
    /** @type {any} */ (this)[`_${move}`]?.(event);
    if (!this.open) this.#finish(at);
  }

  /** @param {{ at: Timestamp }} event */
  _claimed({ at }) {
    this.#beganAt ||= at;
    if (this.#isInterrupted) this.#addMilestone("resumed", "Resumed. What was finished is kept.");
    this.#isInterrupted = false;
    for (const step of this.#steps.values()) step.markResumed();
    this.#setStatus(this.#interruptions ? "Working again" : "Working", "good", true);
  }

  /** @param {TurnMoves["interrupted"]} event */
  _interrupted({ reason }) {
    this.#interruptions += 1;
    this.#isInterrupted = true;
    for (const step of this.#steps.values()) step.markInterrupted();
    this.#addMilestone("cut", INTERRUPTION_TEXTS[reason] ?? "Cut off.");
    this.#setStatus("Interrupted", "warn");
    this.shown.preview.hidden = true;
  }

  _requeued() {
    this.#setStatus("Resuming", "warn", true);
  }

  _asked() {
    this.#setStatus("Waits for you", "warn");
  }

  /** @param {TurnMoves["answered"]} event */
  _answered({ question, answer }) {
    this.#questions.get(question)?.showAnswer(answer);
    this.answered = true;
    this.#setStatus("Goes on", "good", true);
  }

  _finished() {
    this.#setStatus("");
  }

  _failed() {
    this.#setStatus("Failed", "bad");
  }

  /** @param {TurnMoves["cancelled"]} event */
  _cancelled({ why }) {
    this.#setStatus(CANCELLATION_TEXTS[why] ?? "Stopped");
  }

  _undone() {
    this.#setStatus("Taken back");
  }

  /**
   * Show the decision of recovery; its text is empty where another event says the same.
   *
   * @param {Decision} decision
   */
  decision({ decision, text }) {
    this.#clearHeld();
    if (decision === "ask_user") this.#setStatus("Waits for you", "warn");
    if (text) this.#heldMilestone = this.#addMilestone("held", text);
  }

  #clearHeld() {
    this.#heldMilestone?.remove();
    this.#heldMilestone = null;
  }

  /**
   * The gateway is gone, or back. While it is gone, the state of the turn is not known.
   *
   * @param {boolean} isAway
   */
  setAway(isAway) {
    if (!this.open || this.element.dataset.state === "asked") return;
    this.element.classList.toggle("away", isAway);
    this.#renderStatus(isAway ? ["Waits for the gateway", "warn", false] : this.#statusShown);
  }

  // ── steps, questions and answers ──────────────────────────────────────────────────────────────────────────

  /** @param {Plan} plan */
  plan({ text, calls }) {
    this.#clearTrouble();
    if (text.trim()) this.shown.list.append(el("li", { className: "aside" }, renderMarkdown(text)));
    for (const { call, tool, about } of calls) this.#stepView(call).showPlanned(tool, about);
  }

  /** @param {StepStarted | StepEnded} event */
  step(event) {
    const step = this.#stepView(event.call);
    if (event.state === "started") step.markStarted(event);
    else step.markEnded(event);
    this.#updateSummary();
  }

  /**
   * A call of the model failed; show when the next one comes.
   *
   * @param {Trouble} trouble
   */
  trouble({ text, next_at: next }) {
    this.shown.preview.hidden = true;
    this.#addMilestone("failed", text);
    if (next) this.#setStatus(`${TROUBLE_TEXT}: next try at ${formatClock(next)}`, "warn", true);
  }

  /** @param {Runs} runs */
  showRuns(runs) {
    for (const [call, step] of this.#steps) step.showRuns(runs[`${this.id}:${call}`]);
  }

  /** @param {Question} question */
  question(question) {
    /** @type {[string, object][]} */
    const choices = question.options.map((option) => [option, { answer: option }]);
    this.#addQuestion(new QuestionCard(question, choices, `/api/questions/${encodeURIComponent(question.id)}/answer`));
  }

  /** @param {Approval} approval */
  approval(approval) {
    /** @type {[string, object][]} */
    const choices = [["Approve", { approve: true }], ["Deny", { approve: false }]];
    this.#addQuestion(new QuestionCard(approval, choices, `/api/approvals/${encodeURIComponent(approval.id)}`));
  }

  /** @param {Preview} preview */
  preview({ text }) {
    if (FINAL_MOVES.has(this.element.dataset.state ?? "")) return; // the answer was faster
    this.#clearTrouble();
    this.shown.preview.replaceChildren(renderMarkdown(text));
    this.shown.preview.hidden = false;
  }

  /**
   * Add a part of the answer. A question whose card is shown is not added once more.
   *
   * @param {string} text
   * @param {string} id
   * @param {Attachment[]} [attachments]
   * @param {string | null} [asks]
   */
  addReply(text, id, attachments, asks) {
    this.shown.preview.hidden = true;
    if (asks && this.#questions.has(asks)) return;
    const part = el("div", {}, renderMarkdown(text), attachmentList(attachments));
    part.dataset.message = id;
    this.shown.body.append(part);
  }

  // ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

  /**
   * @param {string} call
   * @returns {StepView}
   */
  #stepView(call) {
    let step = this.#steps.get(call);
    if (!step) {
      step = new StepView(call);
      this.#steps.set(call, step);
      this.shown.list.append(step.element);
      this.shown.steps.hidden = false;
      this.#updateSummary();
    }
    return step;
  }

  /** @param {QuestionCard} card */
  #addQuestion(card) {
    if (this.#questions.has(card.id)) return;
    this.#questions.set(card.id, card);
    this.shown.questions.append(card.element);
  }

  /**
   * @param {string} kind
   * @param {string} text
   */
  #addMilestone(kind, text) {
    const milestone = el("li", { className: `milestone ${kind}` }, text);
    this.shown.list.append(milestone);
    this.#updateSummary();
    this.shown.steps.hidden = false;
    return milestone;
  }

  /** @param {string} text */
  #setStatus(text, kind = "", busy = false) {
    this.#statusShown = [text, kind, busy];
    this.#renderStatus(this.#statusShown);
  }

  /** The model answers again: drop the status that tells of trouble. */
  #clearTrouble() {
    if (this.open && this.#statusShown[0].startsWith(TROUBLE_TEXT)) this.#setStatus("Working", "good", true);
  }

  /** @param {Status} status */
  #renderStatus([text, kind, busy]) {
    this.status.className = `badge ${kind}${busy ? " busy" : ""}`;
    this.status.textContent = text;
    this.status.hidden = !text;
  }

  #updateSummary(duration = "") {
    const { shown } = this;
    const steps = plural(shown.count("[data-call]"), "step");
    const [interruptions, failures] = [shown.count(".cut"), shown.count(".failed")];
    const rare = [interruptions && plural(interruptions, "interruption"), failures && plural(failures, "failed call")];
    shown.summary.textContent = [steps, ...rare.filter(Boolean)].join(", ") + duration;
  }

  /** @param {Timestamp} at */
  #finish(at) {
    for (const card of this.#questions.values()) card.expire();
    for (const step of this.#steps.values()) step.markTurnEnded();
    this.#updateSummary(this.#beganAt ? ` · ${formatDuration(at - this.#beganAt)}` : "");
    this.shown.collapse();
  }
}
