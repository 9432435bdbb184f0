// The demo: examples to send, a button that kills the gateway, and how often each step really ran.

import { call } from "./api.js";
import { find } from "./dom.js";

export class Demo {
  #timer = 0;

  /** `send(text)` writes in the chat, `counted(runs)` gets the counts. */
  constructor({ send, killing, counted }) {
    this.panel = find("#examples");
    this.toggle = find("#more-examples");
    this.counted = counted;
    this.panel.addEventListener("click", (event) => this.#try(event, send));
    this.toggle.addEventListener("click", () => this.show(this.panel.hidden));
    find("#kill").addEventListener("click", () => this.#kill(killing));
  }

  show(yes) {
    this.panel.hidden = !yes;
    this.toggle.setAttribute("aria-expanded", yes);
  }

  /** Count anew, soon. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#count(), 100);
  }

  async #count() {
    try {
      this.counted((await call("GET", "/api/demo/runs")).runs);
    } catch {
      // It was killed in between. The next step asks again.
    }
  }

  #try(event, send) {
    const card = event.target.closest("button");
    if (!card) return;
    this.show(false);
    send(find("code", card).textContent);
  }

  async #kill(killing) {
    killing();
    try {
      await call("POST", "/api/demo/kill");
    } catch {
      // Dead before it could answer; that is what was asked for.
    }
  }
}
