// The demo: examples to send, a button that kills the gateway, and how often each step really ran.

import { callApi } from "./api.js";
import { find } from "./dom.js";

export class DemoPanel {
  #timer = 0;

  /** `send(text)` writes in the chat, `showRuns(runs)` gets the counts. */
  constructor({ send, expectKill, showRuns }) {
    this.panel = find("#examples");
    this.toggle = find("#more-examples");
    this.showRuns = showRuns;
    this.panel.addEventListener("click", (event) => this.#sendExample(event, send));
    this.toggle.addEventListener("click", () => this.show(this.panel.hidden));
    find("#kill").addEventListener("click", () => this.#kill(expectKill));
  }

  show(yes) {
    this.panel.hidden = !yes;
    this.toggle.setAttribute("aria-expanded", yes);
  }

  /** Count anew, soon. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#loadRuns(), 100);
  }

  async #loadRuns() {
    try {
      this.showRuns((await callApi("GET", "/api/demo/runs")).runs);
    } catch {
      // It was killed in between. The next step asks again.
    }
  }

  #sendExample(event, send) {
    const card = event.target.closest("button");
    if (!card) return;
    this.show(false);
    send(find("code", card).textContent);
  }

  async #kill(expectKill) {
    expectKill();
    try {
      await callApi("POST", "/api/demo/kill");
    } catch {
      // Dead before it could answer; that is what was asked for.
    }
  }
}
