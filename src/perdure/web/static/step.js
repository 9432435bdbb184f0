// One use of a tool: its name, its state as it changes, and its result for whoever wants to see it.

import { duration, el } from "./dom.js";

const WORDS = {
  wanted: "waiting",
  running: "running",
  ok: "done",
  error: "error",
  unknown: "outcome unknown",
  cancelled: "cancelled",
  cut: "cut off",
};
const COUNTED = new Set(["step", "once"]); // the tools that leave a trace of every run
const LIVES_ON = "attached";
const NEVER_AGAIN = "once";

export class Step {
  #effect = "";
  #at = 0;
  #cut = false;

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
    this.#is("wanted");
  }

  wanted(tool, about) {
    this.name.textContent = tool;
    this.about.textContent = about;
  }

  started({ tool, effect, at }) {
    this.name.textContent = tool;
    this.#effect = effect;
    this.#at = at;
    this.#run();
  }

  /** The gateway died. What comes of that depends on what the tool does. */
  cutOff() {
    if (this.element.dataset.state !== "running") return;
    this.#cut = true;
    this.#is("cut");
    this.remark.textContent = this.#effect === LIVES_ON ? "goes on without the gateway" : WORDS.cut;
  }

  /** Its turn runs again, and so does the step if it may be repeated. Of any other, the outcome follows. */
  resumed() {
    if (this.element.dataset.state === "cut" && this.#effect !== NEVER_AGAIN) this.#run();
  }

  #run() {
    this.#is("running");
    const lived = this.#effect === LIVES_ON ? "went on without the gateway" : "runs again";
    this.remark.textContent = this.#cut ? lived : "";
  }

  ended({ outcome, text, at }) {
    this.#is(outcome);
    const lived = this.#cut && this.#effect === LIVES_ON;
    this.remark.textContent = outcome === "ok" ? (lived ? "went on without the gateway" : "") : WORDS[outcome];
    this.time.textContent = this.#at ? duration(at - this.#at) : "";
    this.result.textContent = text;
    this.result.hidden = !text;
  }

  counted(times) {
    if (!times || !COUNTED.has(this.name.textContent)) return;
    const { state } = this.element.dataset;
    if (state === "cut") this.runs.textContent = times === 1 ? "begun once" : `begun ${times} times`;
    else if (state === "running") this.runs.textContent = times === 1 ? "" : `run ${times}`;
    else this.runs.textContent = times === 1 ? "ran once" : `ran ${times} times`;
    this.runs.title = times === 1 ? "" : "It was cut off before it had ended, and may be repeated, so it was begun again.";
    this.runs.hidden = false;
    this.element.dataset.runs = times;
  }

  /** Its turn has ended. */
  over() {
    if (["wanted", "running"].includes(this.element.dataset.state)) this.#is("cancelled");
  }

  #is(state) {
    this.element.dataset.state = state;
    this.state.replaceChildren(el("span", { className: "unseen" }, WORDS[state] ?? state));
  }
}
