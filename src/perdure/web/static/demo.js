// The demo: examples to send, a button that kills the gateway, and how often each step really ran.

/** @import { Runs } from "../page-types" */

import { callApi } from "./api.js";
import { closest, need } from "./dom.js";

const COUNT_DELAY_MS = 100;

export class DemoPanel {
  #timer = 0;

  /**
   * @param {object} chat
   * @param {(text: string) => void} chat.send
   * @param {() => void} chat.expectKill
   * @param {(runs: Runs) => void} chat.showRuns
   */
  constructor({ send, expectKill, showRuns }) {
    this.panel = need("#examples");
    this.toggle = need("#more-examples");
    this.showRuns = showRuns;
    this.panel.addEventListener("click", (event) => this.#sendExample(event, send));
    this.toggle.addEventListener("click", () => this.show(this.panel.hidden));
    need("#kill").addEventListener("click", () => this.#kill(expectKill));
  }

  /** @param {boolean} visible */
  show(visible) {
    this.panel.hidden = !visible;
    this.toggle.setAttribute("aria-expanded", String(visible));
  }

  /** Load the counts again, once for several events in a row. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loadRuns(), COUNT_DELAY_MS);
  }

  async #loadRuns() {
    try {
      this.showRuns((await callApi("GET", "/api/demo/runs")).runs);
    } catch {
      // The gateway was killed meanwhile. The next step loads the counts again.
    }
  }

  /**
   * @param {Event} event
   * @param {(text: string) => void} send
   */
  #sendExample(event, send) {
    const card = closest(event, "button");
    if (!card) return;
    this.show(false);
    send(need("code", HTMLElement, card).textContent ?? "");
  }

  /** @param {() => void} expectKill */
  async #kill(expectKill) {
    expectKill();
    try {
      await callApi("POST", "/api/demo/kill");
    } catch {
      // The gateway died before it could answer, as it was asked to.
    }
  }
}
