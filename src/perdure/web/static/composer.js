// Where one writes: Enter sends, Shift and Enter begins a line, a slash at the beginning shows the commands.

import { find } from "./dom.js";

export class Composer {
  #selectedIndex = -1; // the chosen command of the menu

  #sending = false; // a message whose files are on their way

  /** `send(text, files, to)` is called with what was written, the files that go with it, and `currentChat()` that was. */
  constructor({ send, currentChat }, attachments) {
    this.send = send;
    this.currentChat = currentChat;
    this.attachments = attachments;
    this.form = find("#composer");
    this.words = find("#words");
    this.menu = find("#commands");
    this.options = [...this.menu.children];
    find("#send").disabled = false; // before, the browser would send the form itself, and lose the words
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    this.words.addEventListener("input", () => this.#onInput());
    this.words.addEventListener("keydown", (event) => this.#onKey(event));
    this.words.addEventListener("blur", () => this.#close());
    for (const option of this.options) option.addEventListener("mousedown", (event) => this.#pick(event, option));
  }

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
    else this.fill([text, this.words.value].filter(Boolean).join("\n")); // with what was typed meanwhile
  }

  #onKey(event) {
    if (event.isComposing) return; // Enter ends the word that an input method spells
    const shown = this.#visibleOptions();
    if (!this.menu.hidden && ["ArrowDown", "ArrowUp"].includes(event.key)) {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.#select((this.#selectedIndex + step + shown.length) % shown.length);
    } else if (!this.menu.hidden && (event.key === "Tab" || event.key === "Enter") && shown[this.#selectedIndex]) {
      if (event.key === "Enter" && shown[this.#selectedIndex].dataset.name === this.words.value) return this.#submit(event);
      this.#pick(event, shown[this.#selectedIndex]);
    } else if (event.key === "Escape") {
      this.#close();
    } else if (event.key === "Enter" && !event.shiftKey) {
      this.#submit(event);
    }
  }

  #submit(event) {
    event.preventDefault();
    this.form.requestSubmit();
  }

  #onInput() {
    // Browsers that can do this in the style sheet need no help.
    if (!CSS.supports("field-sizing", "content")) {
      this.words.style.height = "auto";
      this.words.style.height = `${this.words.scrollHeight}px`;
    }
    const typed = this.words.value;
    for (const option of this.options) option.hidden = !option.dataset.name.startsWith(typed);
    const any = /^\/\w*$/.test(typed) && this.#visibleOptions().length > 0;
    this.menu.hidden = !any;
    this.#select(any ? 0 : -1);
  }

  #visibleOptions() {
    return this.options.filter((option) => !option.hidden);
  }

  #select(at) {
    this.#selectedIndex = at;
    const chosen = this.#visibleOptions()[at];
    for (const option of this.options) option.setAttribute("aria-selected", option === chosen);
    if (chosen) this.words.setAttribute("aria-activedescendant", chosen.id);
    else this.words.removeAttribute("aria-activedescendant");
    chosen?.scrollIntoView({ block: "nearest" });
  }

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
