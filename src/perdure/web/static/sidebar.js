// The conversations at the side; on a narrow screen a drawer.

/** @import { ListedChat } from "../page-types" */

import { callApi, chatPagePath } from "./api.js";
import { closest, el, find, need } from "./dom.js";
import { formatTime } from "./format.js";
import { morph } from "./morph.js";
import * as texts from "./texts.js";

const REFRESH_DELAY_MS = 150;

/**
 * The badge of a chat, by what its session waits for. The keys are values of the HTTP API.
 *
 * @type {Record<string, [text: string, kind: string]>}
 */
const STATES = {
  "a place to run": [texts.sidebar.queued, "busy"],
  "its agent": [texts.sidebar.working, "busy"],
  "a person's answer": [texts.sidebar.asked, "warn"],
};

/**
 * The chats in the order that the list shows already; chats that it does not show are left out.
 *
 * @param {(string | undefined)[]} shown
 * @param {ListedChat[]} chats
 */
export function inShownOrder(shown, chats) {
  return shown.map((name) => chats.find((each) => each.chat === name)).filter((chat) => chat !== undefined);
}

const focusedChat = () => (document.activeElement instanceof HTMLElement ? document.activeElement.dataset.chat : undefined);

export class Sidebar {
  #timer = 0;
  #narrow = matchMedia("(max-width: 52rem)");
  #hovers = matchMedia("(hover: hover)");

  /** @param {(chat: string | null) => void} openChat */
  constructor(openChat) {
    this.side = need("#side");
    this.list = need("#chats");
    this.opener = need("#drawer");
    this.veil = need("#veil");
    this.chat = "";
    this.openChat = openChat;
    this.opener.addEventListener("click", () => this.setDrawer(!this.isDrawerOpen));
    this.veil.addEventListener("click", () => this.setDrawer(false));
    this.side.addEventListener("click", (event) => this.#onClick(event));
    this.list.addEventListener("pointerleave", () => this.refresh()); // the order may change now
    addEventListener("keydown", (event) => event.key === "Escape" && this.isDrawerOpen && this.setDrawer(false));
    this.#narrow.addEventListener("change", () => this.setDrawer(false));
    this.setDrawer(false);
  }

  get isDrawerOpen() {
    return this.side.classList.contains("drawn");
  }

  /**
   * Open or close the drawer. What cannot be seen cannot be reached by keyboard either.
   *
   * @param {boolean} open
   */
  setDrawer(open) {
    const wasOpen = this.isDrawerOpen;
    this.side.classList.toggle("drawn", open && this.#narrow.matches);
    this.side.inert = this.#narrow.matches && !open;
    this.veil.hidden = !this.isDrawerOpen;
    need("#main").inert = this.isDrawerOpen; // it lies behind the veil
    this.opener.setAttribute("aria-expanded", String(this.isDrawerOpen));
    if (this.isDrawerOpen) find("a", this.side)?.focus();
    else if (wasOpen) this.opener.focus();
  }

  /** @param {string} chat */
  setCurrent(chat) {
    this.chat = chat;
    this.refresh();
  }

  /** Load the list again, once for several events in a row. */
  refresh() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#load(), REFRESH_DELAY_MS);
  }

  async #load() {
    try {
      /** @type {{ chats: ListedChat[] }} */
      const { chats } = await callApi("GET", "/api/chats");
      this.#renderList(chats);
      need("#nochats").hidden = chats.length > 0;
      const current = chats.find((each) => each.chat === this.chat);
      if (current) document.title = texts.page.titleOf(current.title);
    } catch {
      // Most likely the gateway is gone; the page refreshes the list when it is back.
    }
  }

  /**
   * The link that has the keyboard focus keeps it, wherever the link stands now.
   *
   * @param {ListedChat[]} chats
   */
  #renderList(chats) {
    const focused = focusedChat();
    const fresh = /** @type {HTMLElement} */ (this.list.cloneNode(false));
    fresh.append(...this.#stableOrder(chats).map((each) => this.#item(each)));
    morph(this.list, fresh);
    if (focused === focusedChat()) return;
    [...this.list.querySelectorAll("a")].find((link) => link.dataset.chat === focused)?.focus();
  }

  /**
   * Nothing moves under a pointer: while one is on the list, its order stays, and new conversations wait.
   *
   * @param {ListedChat[]} chats
   */
  #stableOrder(chats) {
    const shown = [...this.list.children].map((item) => /** @type {HTMLElement} */ (item).dataset.key);
    const isPointedAt = this.list.matches(this.#hovers.matches ? ":hover" : ":active");
    return isPointedAt && shown.length ? inShownOrder(shown, chats) : chats;
  }

  /** @param {ListedChat} chat */
  #item({ chat, title, updated_at: at, waits_for: waits }) {
    const [text, kind] = STATES[waits ?? ""] ?? (waits ? [texts.sidebar.interrupted, "warn"] : []);
    const state = text ? el("span", { className: `badge ${kind}` }, text) : el("span", { className: "when" }, formatTime(at));
    const link = el("a", { href: chatPagePath(chat), "aria-current": chat === this.chat ? "page" : null }, el("span", { className: "title" }, title), state);
    link.dataset.chat = chat;
    const item = el("li", {}, link);
    item.dataset.key = chat;
    return item;
  }

  /** @param {MouseEvent} event */
  #onClick(event) {
    const link = closest(event, "a");
    if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault(); // the page stays, so this works also while the gateway is gone
    this.setDrawer(false);
    this.openChat(link.dataset.chat ?? null);
  }
}
