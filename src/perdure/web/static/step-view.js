// One use of a tool: its name, its state as it changes, and its result for whoever wants to see it.

import { el, formatDuration } from "./dom.js";

const STATE_TEXTS = {
  wanted: "waiting",
  running: "running",
  ok: "done",
  error: "error",
  unknown: "outcome unknown",
  cancelled: "cancelled",
  cut: "cut off",
};
const COUNTED_TOOLS = new Set(["step", "once"]); // the tools that leave a trace of every run
const ATTACHED_EFFECT = "attached";
const ONCE_EFFECT = "once";

export class StepView {
  #effect = "";
  #startedAt = 0;
  #wasInterrupted = false;

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

  showPlanned(tool, about) {
    this.name.textContent = tool;
    this.about.textContent = about;
  }

  markStarted({ tool, effect, at }) {
    this.name.textContent = tool;
    this.#effect = effect;
    this.#startedAt = at;
    this.#showRunning();
  }

  /** The gateway died. What comes of that depends on what the tool does. */
  markInterrupted() {
    if (this.element.dataset.state !== "running") return;
    this.#wasInterrupted = true;
    this.#setState("cut");
    this.remark.textContent = this.#effect === ATTACHED_EFFECT ? "goes on without the gateway" : STATE_TEXTS.cut;
  }

  /** Its turn runs again, and so does the step if it may be repeated. Of any other, the outcome follows. */
  markResumed() {
    if (this.element.dataset.state === "cut" && this.#effect !== ONCE_EFFECT) this.#showRunning();
  }

  #showRunning() {
    this.#setState("running");
    const lived = this.#effect === ATTACHED_EFFECT ? "went on without the gateway" : "runs again";
    this.remark.textContent = this.#wasInterrupted ? lived : "";
  }

  markEnded({ outcome, text, at }) {
    this.#setState(outcome);
    const lived = this.#wasInterrupted && this.#effect === ATTACHED_EFFECT;
    this.remark.textContent = outcome === "ok" ? (lived ? "went on without the gateway" : "") : STATE_TEXTS[outcome];
    this.time.textContent = this.#startedAt ? formatDuration(at - this.#startedAt) : "";
    this.result.textContent = text;
    this.result.hidden = !text;
  }

  showRuns(times) {
    if (!times || !COUNTED_TOOLS.has(this.name.textContent)) return;
    const { state } = this.element.dataset;
    if (state === "cut") this.runs.textContent = times === 1 ? "begun once" : `begun ${times} times`;
    else if (state === "running") this.runs.textContent = times === 1 ? "" : `run ${times}`;
    else this.runs.textContent = times === 1 ? "ran once" : `ran ${times} times`;
    this.runs.title = times === 1 ? "" : "It was cut off before it had ended, and may be repeated, so it was begun again.";
    this.runs.hidden = false;
    this.element.dataset.runs = times;
  }

  /** Its turn has ended. */
  markTurnEnded() {
    if (["wanted", "running"].includes(this.element.dataset.state)) this.#setState("cancelled");
  }

  #setState(state) {
    this.element.dataset.state = state;
    this.state.replaceChildren(el("span", { className: "unseen" }, STATE_TEXTS[state] ?? state));
  }
}
