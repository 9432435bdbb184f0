// What the agent asks: a question with its choices, or a call that waits for approval. It stays open over
// restarts, and says so when it was answered, here or elsewhere.

import { GatewayUnavailable, callApi, errorText } from "./api.js";
import { el, formatTime } from "./dom.js";
import { renderMarkdown } from "./markdown.js";

const APPROVAL_TEXTS = { approved: "Approved", denied: "Denied", late: "Too late: it was not run" };

export class QuestionCard {
  #open = true;

  /** `choices` are pairs of a word and the body to post. */
  constructor(data, choices, path) {
    this.id = data.id;
    this.buttons = choices.map(([word, body], n) =>
      el("button", { className: `button${n ? "" : " primary"}`, type: "button", onclick: () => this.#postAnswer(path, body) }, word),
    );
    this.state = el("p", { className: "small quiet", role: "status" });
    this.state.textContent = data.until ? `You can decide until ${formatTime(data.until)}.` : choices.length ? "Or write an answer of your own." : "Write your answer below.";
    const row = el("div", { className: "row" }, ...this.buttons);
    this.element = el("section", { className: "asking", "aria-label": "The agent asks" }, el("div", {}, renderMarkdown(data.text)), row, this.state);
  }

  showAnswer(answer) {
    this.#close(APPROVAL_TEXTS[answer] ?? `Answered: ${answer}`);
  }

  /** The turn has ended without an answer. */
  expire() {
    if (this.#open) this.#close("Nobody waits for this answer any more.");
  }

  async #postAnswer(path, body) {
    this.#setDisabled(true);
    this.state.textContent = "Sending…";
    try {
      await callApi("POST", path, body);
      document.querySelector("#words")?.focus();
    } catch (error) {
      if (!this.#open) return;
      this.#setDisabled(error.status === 404); // nobody waits for it any more
      this.state.textContent = error instanceof GatewayUnavailable ? "The gateway is away. Press again when it is back." : errorText(error);
    }
  }

  #setDisabled(yes) {
    for (const button of this.buttons) button.disabled = yes;
  }

  #close(said) {
    this.#open = false;
    this.element.classList.add("settled");
    this.buttons[0]?.parentElement.remove();
    this.state.textContent = said;
  }
}
