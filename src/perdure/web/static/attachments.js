// Files: chosen, dropped or pasted, uploaded before the message that names them, and shown in the conversation.

/** @import { Attachment } from "../page-types" */

import { asProblem, callApi } from "./api.js";
import { el, need } from "./dom.js";
import { formatBytes } from "./format.js";
import * as texts from "./texts.js";

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

/**
 * The list of a message's files; null without files.
 *
 * @param {Attachment[]} [attachments]
 */
export function attachmentList(attachments = []) {
  if (!attachments.length) return null;
  return el("ul", { className: "files" }, ...attachments.map((each) => el("li", {}, ...attachmentElements(each))));
}

/** @param {Attachment} attachment */
function attachmentElements({ id, name, media_type: type = "", size, state = "fetched" }) {
  if (state !== "fetched") return [el("span", {}, name), el("span", { className: "quiet" }, texts.lookUp(texts.attachments.states, state) ?? state)];
  const path = `/api/attachments/${id}`;
  const image = IMAGE_TYPES.has(type) ? [el("img", { src: path, alt: "", loading: "lazy" })] : [];
  return [el("a", { href: path, download: name }, ...image, name), el("span", { className: "quiet" }, formatBytes(size))];
}

/**
 * A chosen file, its row in the list, and the promise of its upload: null if that failed.
 *
 * @typedef {{ item: HTMLElement, uploaded: Promise<Attachment | null> }} ChosenFile
 */

/** The files that the next message takes along. */
export class AttachmentPicker {
  /** @type {ChosenFile[]} */
  #chosen = [];

  constructor() {
    this.list = need("#attached");
    const input = need("#files", HTMLInputElement);
    need("#attach").addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.#add(input.files ?? []);
      input.value = "";
    });
    need("#words").addEventListener("paste", (event) => this.#addFromEvent(event, event.clipboardData));
    need(".talk").addEventListener("dragover", (event) => event.preventDefault());
    need(".talk").addEventListener("drop", (event) => this.#addFromEvent(event, event.dataTransfer));
  }

  get hasFiles() {
    return this.#chosen.length > 0;
  }

  /** Remove the files from the list and return them, once all are uploaded. If one failed, all stay: null. */
  async takeUploaded() {
    const wanted = [...this.#chosen];
    const uploaded = await Promise.all(wanted.map((each) => each.uploaded));
    const chosen = wanted.filter((each) => this.#chosen.includes(each)); // some may have been removed meanwhile
    const files = uploaded.filter((_, n) => chosen.includes(wanted[n])).filter((file) => file !== null);
    if (files.length < chosen.length) return null;
    for (const each of chosen) this.#remove(each);
    return files;
  }

  /**
   * @param {Event} event
   * @param {DataTransfer | null} transfer
   */
  #addFromEvent(event, transfer) {
    if (!transfer?.files.length) return;
    event.preventDefault();
    this.#add(transfer.files);
  }

  /** @param {Iterable<File>} files */
  #add(files) {
    for (const file of files) {
      const state = el("span", { className: "quiet", role: "status" }, texts.attachments.uploading);
      const label = texts.attachments.remove(file.name);
      const drop = el("button", { className: "button plain slim", type: "button", "aria-label": label }, texts.attachments.removeSign);
      const item = el("li", {}, el("span", {}, file.name), state, drop);
      const each = { item, uploaded: this.#upload(file, state, item) };
      drop.addEventListener("click", () => this.#remove(each));
      this.#chosen.push(each);
      this.list.append(item);
    }
    this.list.hidden = !this.hasFiles;
  }

  /**
   * @param {File} file
   * @param {HTMLElement} state
   * @param {HTMLElement} item
   * @returns {Promise<Attachment | null>}
   */
  async #upload(file, state, item) {
    try {
      const attachment = await callApi("POST", `/api/attachments?name=${encodeURIComponent(file.name)}`, file);
      state.textContent = formatBytes(attachment.size);
      return attachment;
    } catch (error) {
      item.classList.add("refused");
      state.textContent = texts.attachments.failed(asProblem(error).message);
      return null;
    }
  }

  /** @param {ChosenFile} each */
  #remove(each) {
    this.#chosen = this.#chosen.filter((other) => other !== each);
    each.item.remove();
    this.list.hidden = !this.hasFiles;
    need("#words").focus();
  }
}
