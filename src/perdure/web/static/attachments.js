// Files: chosen, dropped or pasted, sent ahead of the message that names them, and shown where they arrived.

import { callApi } from "./api.js";
import { el, find } from "./dom.js";

const IMAGE_TYPES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const STATE_TEXTS = { referenced: "on its way", failed: "could not be fetched" };

/** Bytes as people say them. */
function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${(bytes / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}

/** The files of a message. */
export function attachmentList(attachments = []) {
  return attachments.length ? el("ul", { className: "files" }, ...attachments.map((each) => el("li", {}, ...attachmentElements(each)))) : null;
}

function attachmentElements({ id, name, media_type: kind, size: bytes, state = "fetched" }) {
  if (state !== "fetched") return [el("span", {}, name), el("span", { className: "quiet" }, STATE_TEXTS[state] ?? state)];
  const place = `/api/attachments/${id}`;
  const picture = IMAGE_TYPES.has(kind) ? [el("img", { src: place, alt: "", loading: "lazy" })] : [];
  return [el("a", { href: place, download: name }, ...picture, name), el("span", { className: "quiet" }, formatBytes(bytes))];
}

/** What is about to be sent along. */
export class AttachmentPicker {
  #chosen = []; // {name, ready: a promise of what the gateway calls it, item}

  constructor() {
    this.list = find("#attached");
    const input = find("#files");
    find("#attach").addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.#add(input.files);
      input.value = "";
    });
    find("#words").addEventListener("paste", (event) => this.#addFromEvent(event, event.clipboardData.files));
    find(".talk").addEventListener("dragover", (event) => event.preventDefault());
    find(".talk").addEventListener("drop", (event) => this.#addFromEvent(event, event.dataTransfer.files));
  }

  get hasFiles() {
    return this.#chosen.length > 0;
  }

  /** The files, once the gateway has them all. Whatever it has not stays here, and says why. */
  async takeUploaded() {
    const wanted = [...this.#chosen];
    const known = new Map(await Promise.all(wanted.map(async (each) => [each, await each.ready])));
    const chosen = wanted.filter((each) => this.#chosen.includes(each)); // some may have been removed meanwhile
    if (chosen.some((each) => !known.get(each))) return null;
    for (const each of chosen) this.#remove(each);
    return chosen.map((each) => known.get(each));
  }

  #addFromEvent(event, files) {
    if (!files.length) return;
    event.preventDefault();
    this.#add(files);
  }

  #add(files) {
    for (const file of files) {
      const fate = el("span", { className: "quiet", role: "status" }, "…");
      const drop = el("button", { className: "button plain slim", type: "button", "aria-label": `Remove ${file.name}` }, "✕");
      const each = { item: el("li", {}, el("span", {}, file.name), fate, drop), fate, file };
      drop.addEventListener("click", () => this.#remove(each));
      each.ready = this.#upload(each);
      this.#chosen.push(each);
      this.list.append(each.item);
    }
    this.list.hidden = !this.hasFiles;
  }

  async #upload({ file, fate, item }) {
    try {
      const known = await callApi("POST", `/api/attachments?name=${encodeURIComponent(file.name)}`, file);
      fate.textContent = formatBytes(known.size);
      return known;
    } catch (error) {
      item.classList.add("refused");
      fate.textContent = `not sent: ${error.message}. Remove it, and try again.`;
      return null;
    }
  }

  #remove(each) {
    this.#chosen = this.#chosen.filter((other) => other !== each);
    each.item.remove();
    this.list.hidden = !this.hasFiles;
    find("#words").focus();
  }
}
