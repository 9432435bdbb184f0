// One turn of the agent: what it does, step by step, what it asks, what became of it, and its answer.

import { Asking } from "./asking.js";
import { filesOf } from "./attaching.js";
import { clock, duration, el, plural } from "./dom.js";
import { markdown } from "./markdown.js";
import { Step } from "./step.js";

const FINAL = new Set(["finished", "failed", "cancelled", "undone"]);
const TROUBLE = "Trouble with the model";
const CUT = {
  restart_interrupted: "Cut off: the gateway died in the middle of this.",
  restart_timeout: "Cut off by a restart of the gateway.",
  shutdown_timeout: "Cut off: the gateway was stopped.",
  lease_lost: "Cut off: another gateway took over.",
};

const ENDED = {
  suspended: "Set aside",
  superseded: "Left behind",
  replaced: "Left behind",
  reset: "Left behind",
  dropped: "Given up",
  cleared: "",
};

export class Turn {
  #steps = new Map(); // by call
  #asked = new Map(); // by the id of the question
  #said = ["", "", false]; // its status
  #begun = 0;
  #cuts = 0;
  #cut = false; // and not resumed yet
  #held = null; // the line that says why it does not go on, while it does not

  constructor(id) {
    this.id = id;
    this.open = false;
    this.answered = false; // a moment ago: what comes of it may stand elsewhere
    this.status = el("span", { className: "badge", hidden: true });
    this.#begin();
  }

  /** Where it shows what it does and says from now on. */
  #begin() {
    this.summary = el("summary", {}, "Steps");
    this.list = el("ol", { className: "steps" });
    this.work = el("details", { className: "work", open: true, hidden: true }, this.summary, this.list);
    this.asks = el("div");
    this.body = el("div", { className: "said" });
    this.growing = el("div", { className: "said growing", hidden: true, "aria-live": "off" });
    const head = el("header", {}, el("span", { className: "author" }, "Agent"), this.status);
    this.element = el("article", { className: "turn", "aria-label": "Agent" }, head, this.work, this.asks, this.body, this.growing);
    this.element.dataset.turn = this.id;
  }

  /** Leave what is here as it is, and go on in another element. */
  goOn() {
    const { state } = this.element.dataset;
    this.#fold();
    this.#begin();
    this.element.dataset.state = state;
    return this.element;
  }

  // ── what happens to it ────────────────────────────────────────────────────────────────────────────────────

  move({ move, at, ...more }) {
    this.#release();
    this.open = !FINAL.has(move);
    this.element.dataset.state = move;
    this[`_${move}`]?.(at, more);
    if (!this.open) this.#end(at);
  }

  _claimed(at) {
    this.#begun ||= at;
    if (this.#cut) this.#mark("resumed", "Resumed. What was finished is kept.");
    this.#cut = false;
    for (const step of this.#steps.values()) step.resumed();
    this.#say(this.#cuts ? "Working again" : "Working", "good", true);
  }

  _interrupted(_, { reason }) {
    this.#cuts += 1;
    this.#cut = true;
    for (const step of this.#steps.values()) step.cutOff();
    this.#mark("cut", CUT[reason] ?? "Cut off.");
    this.#say("Interrupted", "warn");
    this.growing.hidden = true;
  }

  _requeued() {
    this.#say("Resuming", "warn", true);
  }

  _asked() {
    this.#say("Waits for you", "warn");
  }

  _answered(_, { question, answer }) {
    this.#asked.get(question)?.settle(answer);
    this.answered = true;
    this.#say("Goes on", "good", true);
  }

  _finished() {
    this.#say("");
  }

  _failed() {
    this.#say("Failed", "bad");
  }

  _cancelled(_, { why }) {
    this.#say(ENDED[why] ?? "Stopped");
  }

  _undone() {
    this.#say("Taken back");
  }

  /** What the gateway has decided about the interruption; `text` if nothing else says it. */
  decision({ decision, text }) {
    this.#release();
    if (decision === "ask_user") this.#say("Waits for you", "warn");
    if (text) this.#held = this.#mark("held", text);
  }

  #release() {
    this.#held?.remove();
    this.#held = null;
  }

  /** While the gateway is gone, nobody knows how it stands. */
  away(yes) {
    if (!this.open || this.element.dataset.state === "asked") return;
    this.element.classList.toggle("away", yes);
    this.#show(...(yes ? ["Waits for the gateway", "warn", false] : this.#said));
  }

  // ── what it does and says ─────────────────────────────────────────────────────────────────────────────────

  plan({ text, calls }) {
    this.#works();
    if (text.trim()) this.list.append(el("li", { className: "aside" }, markdown(text)));
    for (const { call, tool, about } of calls) this.#step(call).wanted(tool, about);
  }

  step({ call, state, ...more }) {
    const step = this.#step(call);
    if (state === "started") step.started(more);
    else step.ended(more);
    this.#sum();
  }

  /** A try to ask the model failed; the page says when the next one comes. */
  trouble({ text, next_at: next }) {
    this.growing.hidden = true;
    this.#mark("failed", text);
    if (next) this.#say(`${TROUBLE}: next try at ${clock(next)}`, "warn", true);
  }

  /** How often each step really ran, by call. */
  counted(runs) {
    for (const [call, step] of this.#steps) step.counted(runs[`${this.id}:${call}`]);
  }

  question(data) {
    this.#ask(new Asking(data, [...data.options].map((option) => [option, { answer: option }]), `/api/questions/${encodeURIComponent(data.id)}/answer`));
  }

  approval(data) {
    const verdicts = [["Approve", { approve: true }], ["Deny", { approve: false }]];
    this.#ask(new Asking(data, verdicts, `/api/approvals/${encodeURIComponent(data.id)}`));
  }

  preview({ text }) {
    if (FINAL.has(this.element.dataset.state)) return; // its answer was faster
    this.#works();
    this.growing.replaceChildren(markdown(text));
    this.growing.hidden = false;
  }

  /** A part of the answer. A question is shown with its buttons already. */
  reply(text, id, attachments, asks) {
    this.growing.hidden = true;
    if (asks && this.#asked.has(asks)) return;
    const part = el("div", {}, markdown(text), filesOf(attachments));
    part.dataset.message = id;
    this.body.append(part);
  }

  // ── inside ────────────────────────────────────────────────────────────────────────────────────────────────

  #step(call) {
    if (!this.#steps.has(call)) {
      const step = new Step(call);
      this.#steps.set(call, step);
      this.list.append(step.element);
      this.work.hidden = false;
      this.#sum();
    }
    return this.#steps.get(call);
  }

  #ask(asking) {
    if (this.#asked.has(asking.id)) return;
    this.#asked.set(asking.id, asking);
    this.asks.append(asking.element);
  }

  #mark(kind, text) {
    const mark = el("li", { className: `milestone ${kind}` }, text);
    this.list.append(mark);
    this.#sum();
    this.work.hidden = false;
    return mark;
  }

  #say(text, kind = "", busy = false) {
    this.#said = [text, kind, busy];
    this.#show(text, kind, busy);
  }

  /** The model answers, whatever trouble there was. */
  #works() {
    if (this.open && this.#said[0].startsWith(TROUBLE)) this.#say("Working", "good", true);
  }

  #show(text, kind, busy) {
    this.status.className = `badge ${kind}${busy ? " busy" : ""}`;
    this.status.textContent = text;
    this.status.hidden = !text;
  }

  #sum(spent = "") {
    const count = (selector) => this.list.querySelectorAll(selector).length;
    const steps = plural(count("[data-call]"), "step");
    const rare = [["interruption", count(".cut")], ["failed call", count(".failed")]].filter(([, times]) => times);
    this.summary.textContent = [steps, ...rare.map(([noun, times]) => plural(times, noun))].join(", ") + spent;
  }

  #end(at) {
    for (const asking of this.#asked.values()) asking.lapse();
    for (const step of this.#steps.values()) step.over();
    this.#sum(this.#begun ? ` · ${duration(at - this.#begun)}` : "");
    this.#fold();
  }

  #fold() {
    this.growing.hidden = true;
    this.work.open = this.list.querySelector(".cut, .failed") !== null; // a story that is worth reading stays open
  }
}
