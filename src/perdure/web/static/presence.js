// Whether the gateway is there: a word in the bar, and a banner with a timer while it is gone.

import { call } from "./api.js";
import { duration, el, find } from "./dom.js";

const SHORT = 700; // milliseconds: a break that nobody needs to hear of
const BACK = 6000; // how long the good news stays

export class Presence {
  #goneAt = 0;
  #killed = false;
  #timers = [];

  constructor({ supervised }) {
    this.supervised = supervised;
    this.word = find("#presence");
    this.banner = find("#banner");
    this.paused = find("#paused");
    find("#lift").addEventListener("click", () => this.#lift());
  }

  get here() {
    return this.#goneAt === 0;
  }

  /** We are about to kill it: whatever breaks now is meant. */
  killing() {
    this.#killed = true;
    this.gone();
  }

  gone() {
    if (this.#goneAt) return;
    this.#goneAt = performance.now();
    this.#clear();
    this.banner.hidden = true; // it told of the last time
    if (this.#killed) this.#showGone();
    else this.#timers.push(setTimeout(() => this.#showGone(), SHORT));
  }

  back() {
    this.#word("Connected", "good");
    if (!this.here) this.#clear();
    if (!this.here && !this.banner.hidden) this.#showBack(performance.now() - this.#goneAt);
    this.#goneAt = 0;
    this.#killed = false;
  }

  /** How the gateway says that it stands. */
  stands({ phase, resume_paused: paused }) {
    if (phase === "draining") this.#word("Stopping", "warn");
    this.paused.hidden = !paused;
  }

  #showGone() {
    const timer = el("span", { className: "timer", "aria-hidden": "true" });
    const tick = () => (timer.textContent = duration(performance.now() - this.#goneAt));
    const next = this.supervised ? "Its supervisor starts it again." : "Start it again with “perdure run”.";
    const what = this.#killed ? "The gateway is dead (SIGKILL)." : "The gateway is gone.";
    this.#word("Gone", "bad");
    this.banner.className = "banner bad";
    this.banner.replaceChildren(el("span", {}, el("strong", {}, what), ` ${next} What you write is kept.`), timer);
    this.banner.hidden = false;
    this.banner.dataset.state = "gone";
    tick();
    this.#timers.push(setInterval(tick, 100));
  }

  #showBack(away) {
    this.banner.className = "banner good";
    this.banner.dataset.state = "back";
    this.banner.replaceChildren(el("span", {}, el("strong", {}, `The gateway is back after ${duration(away)}.`)));
    this.#timers.push(setTimeout(() => (this.banner.hidden = true), BACK));
  }

  #word(text, kind) {
    this.word.className = `badge ${kind}`;
    this.word.replaceChildren(el("span", { className: "dot" }), el("span", {}, text));
  }

  #clear() {
    this.#timers.forEach((timer) => clearTimeout(timer) ?? clearInterval(timer));
    this.#timers = [];
  }

  // ── the crash-loop breaker ────────────────────────────────────────────────────────────────────────────────

  async #lift() {
    try {
      await call("POST", "/api/resume");
    } catch {
      // The banner stays, and so does its button, until the gateway says that the pause is over.
    }
  }
}
