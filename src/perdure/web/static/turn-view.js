// Shows one turn of the agent: its steps, its questions, its interruptions, its outcome and its answer.

/** @import { Approval, Attachment, Decision, Plan, Preview, Question, Runs, StepEnded, StepStarted, Timestamp, Trouble, TurnEvent, TurnMove, TurnMoves } from "../page-types" */

import { attachmentList } from "./attachments.js";
import { el } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { QuestionCard } from "./question-card.js";
import { StepView } from "./step-view.js";
import { may } from "./scopes.js";
import * as texts from "./texts.js";
import { StatusBadge, TurnElement } from "./turn-element.js";

const FINAL_MOVES = new Set(["finished", "failed", "cancelled", "undone"]);

/**
 * A newer gateway may send what this page does not know. The type says that everything known is handled.
 *
 * @param {never} _event
 */
function ignoreUnknown(_event) {}

export class TurnView {
  /** @type {Map<string, StepView>} */
  #steps = new Map(); // by call
  /** @type {Map<string, QuestionCard>} */
  #questions = new Map(); // by the id of the question
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
    this.status = new StatusBadge();
    this.shown = new TurnElement(id, this.status.element);
  }

  get element() {
    return this.shown.root;
  }

  /** Leave the present element as it is, and continue in a new one. */
  continueInNewElement() {
    const { state = "" } = this.element.dataset;
    this.shown.collapse();
    this.shown = new TurnElement(this.id, this.status.element);
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
    this.#showMove(event);
    if (!this.open) this.#finish(at);
  }

  /** @param {TurnMove} event */
  #showMove(event) {
    switch (event.move) {
      case "claimed":
        return this.#onClaimed(event.at);
      case "interrupted":
        return this.#onInterrupted(event.reason);
      case "requeued":
        return this.status.set(texts.turn.requeued, "warn", true);
      case "asked":
        return this.status.set(texts.turn.asked, "warn");
      case "answered":
        return this.#onAnswered(event);
      case "finished":
        return this.status.set(texts.turn.finished);
      case "failed":
        return this.status.set(texts.turn.failed, "bad");
      case "cancelled":
        return this.status.set(texts.lookUp(texts.turn.cancellations, event.why) ?? texts.turn.cancelled);
      case "undone":
        return this.status.set(texts.turn.undone);
      default:
        return ignoreUnknown(event);
    }
  }

  /** @param {Timestamp} at */
  #onClaimed(at) {
    this.#beganAt ||= at;
    if (this.#isInterrupted) this.shown.addMilestone("resumed", texts.turn.resumed);
    this.#isInterrupted = false;
    for (const step of this.#steps.values()) step.markResumed();
    this.status.set(this.#interruptions ? texts.turn.workingAgain : texts.turn.working, "good", true);
  }

  /** @param {string} reason */
  #onInterrupted(reason) {
    this.#interruptions += 1;
    this.#isInterrupted = true;
    for (const step of this.#steps.values()) step.markInterrupted();
    this.shown.addMilestone("cut", texts.lookUp(texts.turn.interruptions, reason) ?? texts.turn.interruption);
    this.status.set(texts.turn.interrupted, "warn");
    this.shown.preview.hidden = true;
  }

  /** @param {TurnMoves["answered"]} event */
  #onAnswered({ question, answer, by }) {
    this.#questions.get(question)?.showAnswer(answer, by);
    this.answered = true;
    this.status.set(texts.turn.answered, "good", true);
  }

  /** @param {TurnEvent} event */
  applyEvent(event) {
    switch (event.name) {
      case "plan":
        return this.#showPlan(event.data);
      case "step":
        return this.#showStep(event.data);
      case "trouble":
        return this.#showTrouble(event.data);
      case "question":
        return this.#showQuestion(event.data);
      case "approval":
        return this.#showApproval(event.data);
      case "preview":
        return this.#showPreview(event.data);
      case "decision":
        return this.#showDecision(event.data);
      default:
        return ignoreUnknown(event);
    }
  }

  /**
   * Show the decision of recovery; its text is empty where another event says the same.
   *
   * @param {Decision} decision
   */
  #showDecision({ decision, text }) {
    this.#clearHeld();
    if (decision === "ask_user") this.status.set(texts.turn.asked, "warn");
    if (text) this.#heldMilestone = this.shown.addMilestone("held", text);
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
    if (isAway) this.status.render(texts.turn.away, "warn");
    else this.status.restore();
  }

  // ── steps, questions and answers ──────────────────────────────────────────────────────────────────────────

  /** @param {Plan} plan */
  #showPlan({ text, calls }) {
    this.#clearTrouble();
    if (text.trim()) this.shown.list.append(el("li", { className: "aside" }, renderMarkdown(text)));
    for (const { call, tool, about } of calls) this.#stepView(call).showPlanned(tool, about);
  }

  /** @param {StepStarted | StepEnded} event */
  #showStep(event) {
    const step = this.#stepView(event.call);
    if (event.state === "started") step.markStarted(event);
    else step.markEnded(event);
    this.shown.updateSummary();
  }

  /**
   * A call of the model failed; show when the next one comes.
   *
   * @param {Trouble} trouble
   */
  #showTrouble({ text, next_at: next }) {
    this.shown.preview.hidden = true;
    this.shown.addMilestone("failed", text);
    if (next) this.status.set(texts.turn.trouble(next), "warn", true);
  }

  /** @param {Runs} runs */
  showRuns(runs) {
    for (const [call, step] of this.#steps) step.showRuns(runs[`${this.id}:${call}`]);
  }

  /** @param {Question} question */
  #showQuestion(question) {
    /** @type {[string, object][]} */
    const choices = may("chat") ? question.options.map((option) => [option, { answer: option }]) : [];
    this.#addQuestion(new QuestionCard(question, choices, `/api/questions/${encodeURIComponent(question.id)}/answer`));
  }

  /** @param {Approval} approval */
  #showApproval(approval) {
    /** @type {[string, object][]} */
    const choices = [[texts.question.approve, { approve: true }], [texts.question.deny, { approve: false }]];
    const path = `/api/approvals/${encodeURIComponent(approval.id)}`;
    this.#addQuestion(may("approve") ? new QuestionCard(approval, choices, path) : new QuestionCard(approval, [], path, texts.question.notYours));
  }

  /** @param {Preview} preview */
  #showPreview({ text }) {
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
      this.shown.addItem(step.element);
    }
    return step;
  }

  /** @param {QuestionCard} card */
  #addQuestion(card) {
    if (this.#questions.has(card.id)) return;
    this.#questions.set(card.id, card);
    this.shown.questions.append(card.element);
  }

  /** The model answers again: drop the status that tells of trouble. */
  #clearTrouble() {
    if (this.open && this.status.text.startsWith(texts.turn.troublePrefix)) this.status.set(texts.turn.working, "good", true);
  }

  /** @param {Timestamp} at */
  #finish(at) {
    for (const card of this.#questions.values()) card.expire();
    for (const step of this.#steps.values()) step.markTurnEnded();
    this.shown.updateSummary(this.#beganAt ? at - this.#beganAt : undefined);
    this.shown.collapse();
  }
}
