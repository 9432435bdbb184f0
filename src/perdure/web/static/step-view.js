// Shows one use of a tool: its name, its state as it changes, and its result for a reader who opens it.

/** @import { StepEnded, StepStarted } from "../page-types" */

import { el } from "./dom.js";
import { formatDuration } from "./format.js";
import * as texts from "./texts.js";

const COUNTED_TOOLS = new Set(["step", "once"]); // the tools of the demo that leave a trace of every run
const ATTACHED_EFFECT = "attached"; // the tool runs outside the gateway and outlives it
const ONCE_EFFECT = "once"; // the tool is never run again

export class StepView {
  #effect = "";
  #startedAt = 0;
  #wasInterrupted = false;

  /** @param {string} call */
  constructor(call) {
    this.state = el("span", { className: "state" });
    this.name = el("span", { className: "tool" });
    this.about = el("span", { className: "about" });
    this.remark = el("span", { className: "remark" });
    this.runs = el("span", { className: "runs", hidden: true });
    this.time = el("span", { className: "time" });
    this.result = el("pre", { tabIndex: 0, hidden: true });
    const line = el("summary", {}, this.state, this.name, this.about, this.remark, this.runs, this.time);
    this.element = el("li", {}, el("details", { className: "step" }, line, this.result));
    this.element.dataset.call = call;
    this.#setState("wanted");
  }

  /**
   * @param {string} tool
   * @param {string} about
   */
  showPlanned(tool, about) {
    this.name.textContent = tool;
    this.about.textContent = about;
  }

  /** @param {StepStarted} started */
  markStarted({ tool, effect, at }) {
    this.name.textContent = tool;
    this.#effect = effect;
    this.#startedAt = at;
    this.#showRunning();
  }

  /** The gateway died while the step ran. An attached tool runs on. */
  markInterrupted() {
    if (this.element.dataset.state !== "running") return;
    this.#wasInterrupted = true;
    this.#setState("cut");
    this.remark.textContent = this.#effect === ATTACHED_EFFECT ? texts.step.goesOn : texts.step.states.cut;
  }

  /** The turn runs again, and so does the step if it may be repeated. Of a step that may not, the outcome follows. */
  markResumed() {
    if (this.element.dataset.state === "cut" && this.#effect !== ONCE_EFFECT) this.#showRunning();
  }

  #showRunning() {
    this.#setState("running");
    const resumed = this.#effect === ATTACHED_EFFECT ? texts.step.wentOn : texts.step.runsAgain;
    this.remark.textContent = this.#wasInterrupted ? resumed : "";
  }

  /** @param {StepEnded} ended */
  markEnded({ outcome, text, at }) {
    this.#setState(outcome);
    const outlived = this.#wasInterrupted && this.#effect === ATTACHED_EFFECT;
    this.remark.textContent = outcome === "ok" ? (outlived ? texts.step.wentOn : "") : texts.step.states[outcome];
    this.time.textContent = this.#startedAt ? formatDuration(at - this.#startedAt) : "";
    this.result.textContent = text;
    this.result.hidden = !text;
  }

  /** @param {number | undefined} times */
  showRuns(times) {
    if (!times || !COUNTED_TOOLS.has(this.name.textContent ?? "")) return;
    this.runs.textContent = texts.step.runs(this.element.dataset.state, times);
    this.runs.title = times === 1 ? "" : texts.step.whyAgain;
    this.runs.hidden = false;
    this.element.dataset.runs = String(times);
  }

  markTurnEnded() {
    if (["wanted", "running"].includes(this.element.dataset.state ?? "")) this.#setState("cancelled");
  }

  /** @param {string} state */
  #setState(state) {
    this.element.dataset.state = state;
    this.state.replaceChildren(el("span", { className: "unseen" }, texts.lookUp(texts.step.states, state) ?? state));
  }
}
