// Whether the gateway is there: a word in the bar, and a banner with a timer while it is gone.

import { callApi } from "./api.js";
import { el, find, formatDuration } from "./dom.js";

const GRACE_MS = 700; // milliseconds: a break that nobody needs to hear of
const BACK_BANNER_MS = 6000; // how long the good news stays

export class ConnectionStatus {
  #goneAt = 0;
  #killed = false;
  #timers = [];

  constructor({ supervised }) {
    this.supervised = supervised;
    this.badge = find("#presence");
    this.banner = find("#banner");
    this.paused = find("#paused");
    find("#lift").addEventListener("click", () => this.#resumeAll());
  }

  get isConnected() {
    return this.#goneAt === 0;
  }

  /** We are about to kill it: whatever breaks now is meant. */
  expectKill() {
    this.#killed = true;
    this.markGone();
  }

  markGone() {
    if (this.#goneAt) return;
    this.#goneAt = performance.now();
    this.#clearTimers();
    this.banner.hidden = true; // it told of the last time
    if (this.#killed) this.#showGone();
    else this.#timers.push(setTimeout(() => this.#showGone(), GRACE_MS));
  }

  markBack() {
    this.#setBadge("Connected", "good");
    if (!this.isConnected) this.#clearTimers();
    if (!this.isConnected && !this.banner.hidden) this.#showBack(performance.now() - this.#goneAt);
    this.#goneAt = 0;
    this.#killed = false;
  }

  /** How the gateway says that it stands. */
  showGatewayState({ phase, resume_paused: paused }) {
    if (phase === "draining") this.#setBadge("Stopping", "warn");
    this.paused.hidden = !paused;
  }

  #showGone() {
    const timer = el("span", { className: "timer", "aria-hidden": "true" });
    const tick = () => (timer.textContent = formatDuration(performance.now() - this.#goneAt));
    const next = this.supervised ? "Its supervisor starts it again." : "Start it again with “perdure run”.";
    const what = this.#killed ? "The gateway is dead (SIGKILL)." : "The gateway is gone.";
    this.#setBadge("Gone", "bad");
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
    this.banner.replaceChildren(el("span", {}, el("strong", {}, `The gateway is back after ${formatDuration(away)}.`)));
    this.#timers.push(setTimeout(() => (this.banner.hidden = true), BACK_BANNER_MS));
  }

  #setBadge(text, kind) {
    this.badge.className = `badge ${kind}`;
    this.badge.replaceChildren(el("span", { className: "dot" }), el("span", {}, text));
  }

  #clearTimers() {
    this.#timers.forEach((timer) => clearTimeout(timer) ?? clearInterval(timer));
    this.#timers = [];
  }

  // ── the crash-loop breaker ────────────────────────────────────────────────────────────────────────────────

  async #resumeAll() {
    try {
      await callApi("POST", "/api/resume");
    } catch {
      // The banner stays, and so does its button, until the gateway says that the pause is over.
    }
  }
}
