// Shows what the agent asks: a question with its choices, or a tool call that waits for approval. The card stays
// open over restarts of the gateway, and shows the answer that was given here or elsewhere.

/** @import { Timestamp } from "../page-types" */

import { GatewayUnavailable, asProblem, callApi, errorText, isRefusal } from "./api.js";
import { el, find } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import * as texts from "./texts.js";

export class QuestionCard {
  #open = true;

  /**
   * @param {{ id: string, text: string, until?: Timestamp | null }} question
   * @param {[label: string, body: object][]} choices the label of each button, and the body that it posts
   * @param {string} path
   * @param {string} [note] what to say of a question that this login may not answer
   */
  constructor(question, choices, path, note) {
    this.id = question.id;
    this.buttons = choices.map(([label, body], n) =>
      el("button", { className: `button${n ? "" : " primary"}`, type: "button", onclick: () => this.#postAnswer(path, body) }, label),
    );
    this.state = el("p", { className: "small quiet", role: "status" });
    const hint = choices.length ? texts.question.choose : texts.question.write;
    this.state.textContent = note ?? (question.until ? texts.question.until(question.until) : hint);
    const row = el("div", { className: "row" }, ...this.buttons);
    this.element = el("section", { className: "asking", "aria-label": texts.question.label }, el("div", {}, renderMarkdown(question.text)), row, this.state);
  }

  /**
   * @param {string} answer
   * @param {string} by who answered, where, and by what
   */
  showAnswer(answer, by) {
    const verdict = texts.lookUp(texts.question.verdicts, answer);
    this.#close(verdict ? texts.question.decided(verdict, by) : texts.question.answered(answer));
  }

  /** Close the card of a turn that has ended without an answer. */
  expire() {
    if (this.#open) this.#close(texts.question.expired);
  }

  /**
   * @param {string} path
   * @param {object} body
   */
  async #postAnswer(path, body) {
    this.#setDisabled(true);
    this.state.textContent = texts.question.sending;
    try {
      await callApi("POST", path, body);
      find("#words")?.focus();
    } catch (error) {
      if (!this.#open) return;
      this.#setDisabled(isRefusal(error, 404)); // the question is closed
      this.state.textContent = error instanceof GatewayUnavailable ? texts.question.unavailable : errorText(asProblem(error));
    }
  }

  /** @param {boolean} disabled */
  #setDisabled(disabled) {
    for (const button of this.buttons) button.disabled = disabled;
  }

  /** @param {string} text */
  #close(text) {
    this.#open = false;
    this.element.classList.add("settled");
    this.buttons[0]?.parentElement?.remove();
    this.state.textContent = text;
  }
}
