// The conversations at the side; on a narrow screen a drawer.

import { call } from "./api.js";
import { el, find, moment } from "./dom.js";
import { morph } from "./morph.js";

const NARROW = matchMedia("(max-width: 52rem)");
const HOVERS = matchMedia("(hover: hover)");
const STATES = {
  "a place to run": ["queued", "busy"],
  "its agent": ["working", "busy"],
  "a person's answer": ["waits for you", "warn"],
};

export class Sidebar {
  #timer = 0;

  constructor(open) {
    this.side = find("#side");
    this.list = find("#chats");
    this.opener = find("#drawer");
    this.veil = find("#veil");
    this.chat = "";
    this.open = open;
    this.opener.addEventListener("click", () => this.draw(!this.drawn));
    this.veil.addEventListener("click", () => this.draw(false));
    this.side.addEventListener("click", (event) => this.#clicked(event));
    this.list.addEventListener("pointerleave", () => this.refresh()); // what was held back
    addEventListener("keydown", (event) => event.key === "Escape" && this.drawn && this.draw(false));
    NARROW.addEventListener("change", () => this.draw(false));
    this.draw(false);
  }

  get drawn() {
    return this.side.classList.contains("drawn");
  }

  /** Open or close the drawer. What cannot be seen cannot be reached by keyboard either. */
  draw(out) {
    const was = this.drawn;
    this.side.classList.toggle("drawn", out && NARROW.matches);
    this.side.inert = NARROW.matches && !out;
    this.veil.hidden = !this.drawn;
    find("#main").inert = this.drawn; // what lies behind the veil
    this.opener.setAttribute("aria-expanded", this.drawn);
    if (this.drawn) find("a", this.side)?.focus();
    else if (was) this.opener.focus();
  }

  show(chat) {
    this.chat = chat;
    this.refresh();
  }

  /** Ask anew, soon: what happens in a chat comes in bursts. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), 150);
  }

  async #load() {
    try {
      const { chats } = await call("GET", "/api/chats");
      this.#list(chats);
      find("#nochats").hidden = chats.length > 0;
      const current = chats.find((each) => each.chat === this.chat);
      if (current) document.title = `${current.title} · Perdure`;
    } catch {
      // Away, most likely; whoever says that it is back asks for this again.
    }
  }

  /** Whoever is on one of them by keyboard stays on it, wherever it stands now. */
  #list(chats) {
    const on = document.activeElement?.dataset.chat;
    const fresh = this.list.cloneNode(false);
    fresh.append(...this.#inOrder(chats).map((each) => this.#item(each)));
    morph(this.list, fresh);
    if (on === document.activeElement?.dataset.chat) return;
    [...this.list.querySelectorAll("a")].find((link) => link.dataset.chat === on)?.focus();
  }

  /** Nothing moves under a pointer: while one is on the list, its order stays, and new conversations wait. */
  #inOrder(chats) {
    const shown = [...this.list.children].map((item) => item.dataset.key);
    const pointed = this.list.matches(HOVERS.matches ? ":hover" : ":active");
    if (!pointed || !shown.length) return chats;
    return shown.map((name) => chats.find((each) => each.chat === name)).filter(Boolean);
  }

  #item({ chat, title, updated_at: at, waits_for: waits }) {
    const [word, kind] = STATES[waits] ?? (waits ? ["interrupted", "warn"] : []);
    const state = word ? el("span", { className: `badge ${kind}` }, word) : el("span", { className: "when" }, moment(at));
    const link = el("a", { href: `/chats/${encodeURIComponent(chat)}`, "aria-current": chat === this.chat ? "page" : null }, el("span", { className: "title" }, title), state);
    link.dataset.chat = chat;
    const item = el("li", {}, link);
    item.dataset.key = chat;
    return item;
  }

  #clicked(event) {
    const link = event.target.closest("a");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault(); // the page stays, so this works also while the gateway is gone
    this.draw(false);
    this.open(link.dataset.chat ?? null);
  }
}
