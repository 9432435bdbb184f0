// The conversations at the side; on a narrow screen a drawer.

import { callApi } from "./api.js";
import { el, find, formatTime } from "./dom.js";
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
    this.openChat = open;
    this.opener.addEventListener("click", () => this.setDrawer(!this.isDrawerOpen));
    this.veil.addEventListener("click", () => this.setDrawer(false));
    this.side.addEventListener("click", (event) => this.#onClick(event));
    this.list.addEventListener("pointerleave", () => this.refresh()); // what was held back
    addEventListener("keydown", (event) => event.key === "Escape" && this.isDrawerOpen && this.setDrawer(false));
    NARROW.addEventListener("change", () => this.setDrawer(false));
    this.setDrawer(false);
  }

  get isDrawerOpen() {
    return this.side.classList.contains("drawn");
  }

  /** Open or close the drawer. What cannot be seen cannot be reached by keyboard either. */
  setDrawer(out) {
    const was = this.isDrawerOpen;
    this.side.classList.toggle("drawn", out && NARROW.matches);
    this.side.inert = NARROW.matches && !out;
    this.veil.hidden = !this.isDrawerOpen;
    find("#main").inert = this.isDrawerOpen; // what lies behind the veil
    this.opener.setAttribute("aria-expanded", this.isDrawerOpen);
    if (this.isDrawerOpen) find("a", this.side)?.focus();
    else if (was) this.opener.focus();
  }

  setCurrent(chat) {
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
      const { chats } = await callApi("GET", "/api/chats");
      this.#renderList(chats);
      find("#nochats").hidden = chats.length > 0;
      const current = chats.find((each) => each.chat === this.chat);
      if (current) document.title = `${current.title} · Perdure`;
    } catch {
      // Away, most likely; whoever says that it is back asks for this again.
    }
  }

  /** Whoever is on one of them by keyboard stays on it, wherever it stands now. */
  #renderList(chats) {
    const on = document.activeElement?.dataset.chat;
    const fresh = this.list.cloneNode(false);
    fresh.append(...this.#stableOrder(chats).map((each) => this.#item(each)));
    morph(this.list, fresh);
    if (on === document.activeElement?.dataset.chat) return;
    [...this.list.querySelectorAll("a")].find((link) => link.dataset.chat === on)?.focus();
  }

  /** Nothing moves under a pointer: while one is on the list, its order stays, and new conversations wait. */
  #stableOrder(chats) {
    const shown = [...this.list.children].map((item) => item.dataset.key);
    const pointed = this.list.matches(HOVERS.matches ? ":hover" : ":active");
    if (!pointed || !shown.length) return chats;
    return shown.map((name) => chats.find((each) => each.chat === name)).filter(Boolean);
  }

  #item({ chat, title, updated_at: at, waits_for: waits }) {
    const [word, kind] = STATES[waits] ?? (waits ? ["interrupted", "warn"] : []);
    const state = word ? el("span", { className: `badge ${kind}` }, word) : el("span", { className: "when" }, formatTime(at));
    const link = el("a", { href: `/chats/${encodeURIComponent(chat)}`, "aria-current": chat === this.chat ? "page" : null }, el("span", { className: "title" }, title), state);
    link.dataset.chat = chat;
    const item = el("li", {}, link);
    item.dataset.key = chat;
    return item;
  }

  #onClick(event) {
    const link = event.target.closest("a");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault(); // the page stays, so this works also while the gateway is gone
    this.setDrawer(false);
    this.openChat(link.dataset.chat ?? null);
  }
}
