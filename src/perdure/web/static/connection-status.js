// Shows whether the gateway is there: a badge in the bar, and a banner with a timer while the gateway is gone.

import { callApi } from "./api.js";
import { el, need } from "./dom.js";
import { formatDuration } from "./format.js";
import * as texts from "./texts.js";

const GRACE_MS = 700; // a shorter break is not shown
const BACK_BANNER_MS = 6000; // how long the banner says that the gateway is back
const TICK_MS = 100;

export class ConnectionStatus {
  #goneAt = 0;
  #killed = false;
  /** @type {number[]} */
  #timers = [];

  /** @param {{ supervised: boolean }} options */
  constructor({ supervised }) {
    this.supervised = supervised;
    this.badge = need("#presence");
    this.banner = need("#banner");
    this.paused = need("#paused");
    need("#lift").addEventListener("click", () => this.#resumeAll());
  }

  get isConnected() {
    return this.#goneAt === 0;
  }

  /** This page is about to kill the gateway: the banner comes at once and says so. */
  expectKill() {
    this.#killed = true;
    this.markGone();
  }

  markGone() {
    if (this.#goneAt) return;
    this.#goneAt = performance.now();
    this.#clearTimers();
    this.banner.hidden = true; // it may still show the last return
    if (this.#killed) this.#showGone();
    else this.#timers.push(setTimeout(() => this.#showGone(), GRACE_MS));
  }

  markBack() {
    this.#setBadge(texts.connection.connected, "good");
    if (!this.isConnected) this.#clearTimers();
    if (!this.isConnected && !this.banner.hidden) this.#showBack(performance.now() - this.#goneAt);
    this.#goneAt = 0;
    this.#killed = false;
  }

  /**
   * The gateway reports its phase, and whether a crash loop has paused recovery.
   *
   * @param {{ phase: string, resume_paused: boolean }} state
   */
  showGatewayState({ phase, resume_paused: paused }) {
    if (phase === "draining") this.#setBadge(texts.connection.stopping, "warn");
    this.paused.hidden = !paused;
  }

  #showGone() {
    const timer = el("span", { className: "timer", "aria-hidden": "true" });
    const tick = () => (timer.textContent = formatDuration(performance.now() - this.#goneAt));
    const next = this.supervised ? texts.connection.supervised : texts.connection.unsupervised;
    const what = this.#killed ? texts.connection.killedBanner : texts.connection.goneBanner;
    this.#setBadge(texts.connection.gone, "bad");
    this.banner.className = "banner bad";
    this.banner.replaceChildren(el("span", {}, el("strong", {}, what), ` ${next} ${texts.connection.kept}`), timer);
    this.banner.hidden = false;
    this.banner.dataset.state = "gone";
    tick();
    this.#timers.push(setInterval(tick, TICK_MS));
  }

  /** @param {number} milliseconds how long the gateway was gone */
  #showBack(milliseconds) {
    this.banner.className = "banner good";
    this.banner.dataset.state = "back";
    this.banner.replaceChildren(el("span", {}, el("strong", {}, texts.connection.back(milliseconds))));
    this.#timers.push(setTimeout(() => (this.banner.hidden = true), BACK_BANNER_MS));
  }

  /**
   * @param {string} text
   * @param {string} kind
   */
  #setBadge(text, kind) {
    this.badge.className = `badge ${kind}`;
    this.badge.replaceChildren(el("span", { className: "dot" }), el("span", {}, text));
  }

  #clearTimers() {
    for (const timer of this.#timers) clearTimeout(timer); // it clears intervals as well
    this.#timers = [];
  }

  // ── the crash-loop breaker ────────────────────────────────────────────────────────────────────────────────

  async #resumeAll() {
    try {
      await callApi("POST", "/api/resume");
    } catch {
      // The banner and its button stay until the gateway reports that the pause is over.
    }
  }
}
