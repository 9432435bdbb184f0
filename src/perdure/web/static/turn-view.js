// One turn of the agent: what it does, step by step, what it asks, what became of it, and its answer.

import { QuestionCard } from "./question-card.js";
import { attachmentList } from "./attachments.js";
import { el, formatClock, formatDuration, plural } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { StepView } from "./step-view.js";

const FINAL_MOVES = new Set(["finished", "failed", "cancelled", "undone"]);
const TROUBLE_TEXT = "Trouble with the model";
const INTERRUPTION_TEXTS = {
  restart_interrupted: "Cut off: the gateway died in the middle of this.",
  restart_timeout: "Cut off by a restart of the gateway.",
  shutdown_timeout: "Cut off: the gateway was stopped.",
  lease_lost: "Cut off: another gateway took over.",
};

const CANCELLATION_TEXTS = {
  suspended: "Set aside",
  superseded: "Left behind",
  replaced: "Left behind",
  reset: "Left behind",
  dropped: "Given up",
  cleared: "",
};

export class TurnView {
  #steps = new Map(); // by call
  #questions = new Map(); // by the id of the question
  #statusShown = ["", "", false]; // its status
  #beganAt = 0;
  #interruptions = 0;
  #isInterrupted = false; // and not resumed yet
  #heldMilestone = null; // the line that says why it does not go on, while it does not

  constructor(id) {
    this.id = id;
    this.open = false;
    this.answered = false; // a moment ago: what comes of it may stand elsewhere
    this.status = el("span", { className: "badge", hidden: true });
    this.#createElement();
  }

  /** Where it shows what it does and says from now on. */
  #createElement() {
    this.summary = el("summary", {}, "Steps");
    this.list = el("ol", { className: "steps" });
    this.stepsElement = el("details", { className: "work", open: true, hidden: true }, this.summary, this.list);
    this.questionsElement = el("div");
    this.body = el("div", { className: "said" });
    this.previewElement = el("div", { className: "said growing", hidden: true, "aria-live": "off" });
    const head = el("header", {}, el("span", { className: "author" }, "Agent"), this.status);
    this.element = el("article", { className: "turn", "aria-label": "Agent" }, head, this.stepsElement, this.questionsElement, this.body, this.previewElement);
    this.element.dataset.turn = this.id;
  }

  /** Leave what is here as it is, and go on in another element. */
  continueInNewElement() {
    const { state } = this.element.dataset;
    this.#collapse();
    this.#createElement();
    this.element.dataset.state = state;
    return this.element;
  }

  // ── what happens to it ────────────────────────────────────────────────────────────────────────────────────

  applyMove({ move, at, ...more }) {
    this.#clearHeld();
    this.open = !FINAL_MOVES.has(move);
    this.element.dataset.state = move;
    this[`_${move}`]?.(at, more);
    if (!this.open) this.#finish(at);
  }

  _claimed(at) {
    this.#beganAt ||= at;
    if (this.#isInterrupted) this.#addMilestone("resumed", "Resumed. What was finished is kept.");
    this.#isInterrupted = false;
    for (const step of this.#steps.values()) step.markResumed();
    this.#setStatus(this.#interruptions ? "Working again" : "Working", "good", true);
  }

  _interrupted(_, { reason }) {
    this.#interruptions += 1;
    this.#isInterrupted = true;
    for (const step of this.#steps.values()) step.markInterrupted();
    this.#addMilestone("cut", INTERRUPTION_TEXTS[reason] ?? "Cut off.");
    this.#setStatus("Interrupted", "warn");
    this.previewElement.hidden = true;
  }

  _requeued() {
    this.#setStatus("Resuming", "warn", true);
  }

  _asked() {
    this.#setStatus("Waits for you", "warn");
  }

  _answered(_, { question, answer }) {
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

  _cancelled(_, { why }) {
    this.#setStatus(CANCELLATION_TEXTS[why] ?? "Stopped");
  }

  _undone() {
    this.#setStatus("Taken back");
  }

  /** What the gateway has decided about the interruption; `text` if nothing else says it. */
  decision({ decision, text }) {
    this.#clearHeld();
    if (decision === "ask_user") this.#setStatus("Waits for you", "warn");
    if (text) this.#heldMilestone = this.#addMilestone("held", text);
  }

  #clearHeld() {
    this.#heldMilestone?.remove();
    this.#heldMilestone = null;
  }

  /** While the gateway is gone, nobody knows how it stands. */
  setAway(yes) {
    if (!this.open || this.element.dataset.state === "asked") return;
    this.element.classList.toggle("away", yes);
    this.#renderStatus(...(yes ? ["Waits for the gateway", "warn", false] : this.#statusShown));
  }

  // ── what it does and says ─────────────────────────────────────────────────────────────────────────────────

  plan({ text, calls }) {
    this.#clearTrouble();
    if (text.trim()) this.list.append(el("li", { className: "aside" }, renderMarkdown(text)));
    for (const { call, tool, about } of calls) this.#stepView(call).showPlanned(tool, about);
  }

  step({ call, state, ...more }) {
    const step = this.#stepView(call);
    if (state === "started") step.markStarted(more);
    else step.markEnded(more);
    this.#updateSummary();
  }

  /** A try to ask the model failed; the page says when the next one comes. */
  trouble({ text, next_at: next }) {
    this.previewElement.hidden = true;
    this.#addMilestone("failed", text);
    if (next) this.#setStatus(`${TROUBLE_TEXT}: next try at ${formatClock(next)}`, "warn", true);
  }

  /** How often each step really ran, by call. */
  showRuns(runs) {
    for (const [call, step] of this.#steps) step.showRuns(runs[`${this.id}:${call}`]);
  }

  question(data) {
    this.#addQuestion(new QuestionCard(data, [...data.options].map((option) => [option, { answer: option }]), `/api/questions/${encodeURIComponent(data.id)}/answer`));
  }

  approval(data) {
    const verdicts = [["Approve", { approve: true }], ["Deny", { approve: false }]];
    this.#addQuestion(new QuestionCard(data, verdicts, `/api/approvals/${encodeURIComponent(data.id)}`));
  }

  preview({ text }) {
    if (FINAL_MOVES.has(this.element.dataset.state)) return; // its answer was faster
    this.#clearTrouble();
    this.previewElement.replaceChildren(renderMarkdown(text));
    this.previewElement.hidden = false;
  }

  /** A part of the answer. A question is shown with its buttons already. */
  addReply(text, id, attachments, asks) {
    this.previewElement.hidden = true;
    if (asks && this.#questions.has(asks)) return;
    const part = el("div", {}, renderMarkdown(text), attachmentList(attachments));
    part.dataset.message = id;
    this.body.append(part);
  }

  // ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

  #stepView(call) {
    if (!this.#steps.has(call)) {
      const step = new StepView(call);
      this.#steps.set(call, step);
      this.list.append(step.element);
      this.stepsElement.hidden = false;
      this.#updateSummary();
    }
    return this.#steps.get(call);
  }

  #addQuestion(card) {
    if (this.#questions.has(card.id)) return;
    this.#questions.set(card.id, card);
    this.questionsElement.append(card.element);
  }

  #addMilestone(kind, text) {
    const mark = el("li", { className: `milestone ${kind}` }, text);
    this.list.append(mark);
    this.#updateSummary();
    this.stepsElement.hidden = false;
    return mark;
  }

  #setStatus(text, kind = "", busy = false) {
    this.#statusShown = [text, kind, busy];
    this.#renderStatus(text, kind, busy);
  }

  /** The model answers, whatever trouble there was. */
  #clearTrouble() {
    if (this.open && this.#statusShown[0].startsWith(TROUBLE_TEXT)) this.#setStatus("Working", "good", true);
  }

  #renderStatus(text, kind, busy) {
    this.status.className = `badge ${kind}${busy ? " busy" : ""}`;
    this.status.textContent = text;
    this.status.hidden = !text;
  }

  #updateSummary(spent = "") {
    const count = (selector) => this.list.querySelectorAll(selector).length;
    const steps = plural(count("[data-call]"), "step");
    const rare = [["interruption", count(".cut")], ["failed call", count(".failed")]].filter(([, times]) => times);
    this.summary.textContent = [steps, ...rare.map(([noun, times]) => plural(times, noun))].join(", ") + spent;
  }

  #finish(at) {
    for (const card of this.#questions.values()) card.expire();
    for (const step of this.#steps.values()) step.markTurnEnded();
    this.#updateSummary(this.#beganAt ? ` · ${formatDuration(at - this.#beganAt)}` : "");
    this.#collapse();
  }

  #collapse() {
    this.previewElement.hidden = true;
    this.stepsElement.open = this.list.querySelector(".cut, .failed") !== null; // a story that is worth reading stays open
  }
}
