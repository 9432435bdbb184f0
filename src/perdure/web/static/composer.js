// The form in which a person writes: Enter sends, Shift and Enter begins a line, a slash at the beginning shows the
// commands.

/** @import { Attachment } from "../page-types" */

import { need } from "./dom.js";

export class Composer {
  #selectedIndex = -1; // among the visible commands of the menu

  #sending = false; // the files of a message are being uploaded

  /**
   * @param {object} chat
   * @param {(text: string, files: Attachment[], to: string) => void} chat.send
   * @param {() => string} chat.currentChat the chat that a message is for when its sending begins
   * @param {{ readonly hasFiles: boolean, takeUploaded: () => Promise<Attachment[] | null> }} attachments
   */
  constructor({ send, currentChat }, attachments) {
    this.send = send;
    this.currentChat = currentChat;
    this.attachments = attachments;
    this.form = need("#composer", HTMLFormElement);
    this.words = need("#words", HTMLTextAreaElement);
    this.menu = need("#commands");
    this.options = /** @type {HTMLElement[]} */ ([...this.menu.children]);
    need("#send", HTMLButtonElement).disabled = false; // before, the browser would send the form itself, and lose the words
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.words.addEventListener("input", () => this.#onInput());
    this.words.addEventListener("keydown", (event) => this.#onKey(event));
    this.words.addEventListener("blur", () => this.#close());
    for (const option of this.options) option.addEventListener("mousedown", (event) => this.#pick(event, option));
  }

  /** @param {string} text */
  fill(text) {
    this.words.value = text;
    this.#onInput();
    this.words.focus();
  }

  async #send() {
    const text = this.words.value.trim();
    const to = this.currentChat();
    if (this.#sending || (!text && !this.attachments.hasFiles)) return;
    this.fill("");
    this.#sending = true;
    const files = await this.attachments.takeUploaded();
    this.#sending = false;
    if (files) this.send(text, files, to);
    else this.fill([text, this.words.value].filter(Boolean).join("\n")); // together with what was typed meanwhile
  }

  /** @param {KeyboardEvent} event */
  #onKey(event) {
    if (event.isComposing) return; // Enter ends the word that an input method spells
    const visible = this.#visibleOptions();
    const selected = visible[this.#selectedIndex];
    if (!this.menu.hidden && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#select((this.#selectedIndex + step + visible.length) % visible.length);
    } else if (!this.menu.hidden && (event.key === "Tab" || event.key === "Enter") && selected) {
      if (event.key === "Enter" && selected.dataset.name === this.words.value) this.#submit(event);
      else this.#pick(event, selected);
    } else if (event.key === "Escape") {
      this.#close();
    } else if (event.key === "Enter" && !event.shiftKey) {
      this.#submit(event);
    }
  }

  /** @param {Event} event */
  #submit(event) {
    event.preventDefault();
    this.form.requestSubmit();
  }

  #onInput() {
    // Browsers that know `field-sizing` need no help.
    if (!CSS.supports("field-sizing", "content")) {
      this.words.style.height = "auto";
      this.words.style.height = `${this.words.scrollHeight}px`;
    }
    const typed = this.words.value;
    for (const option of this.options) option.hidden = !option.dataset.name?.startsWith(typed);
    const any = /^\/\w*$/.test(typed) && this.#visibleOptions().length > 0;
    this.menu.hidden = !any;
    this.#select(any ? 0 : -1);
  }

  #visibleOptions() {
    return this.options.filter((option) => !option.hidden);
  }

  /** @param {number} index */
  #select(index) {
    this.#selectedIndex = index;
    const selected = this.#visibleOptions()[index];
    for (const option of this.options) option.setAttribute("aria-selected", String(option === selected));
    if (selected) this.words.setAttribute("aria-activedescendant", selected.id);
    else this.words.removeAttribute("aria-activedescendant");
    selected?.scrollIntoView({ block: "nearest" });
  }

  /**
   * @param {Event} event
   * @param {HTMLElement} option
   */
  #pick(event, option) {
    event.preventDefault();
    this.fill(option.dataset.name + (option.dataset.words ? " " : ""));
    this.#close();
  }

  #close() {
    this.menu.hidden = true;
    this.#select(-1);
  }
}
