// Parses the event stream of a chat, and knows from which event on it is to be resumed.

/** @import { StreamEvent } from "../page-types" */

/**
 * One block of the stream: its event, or null for a comment, which the gateway sends when there is nothing new.
 *
 * @param {string} block
 * @returns {{ id: string | undefined, event: StreamEvent } | null}
 */
export function parseBlock(block) {
  if (block.startsWith(":")) return null;
  const fields = Object.fromEntries(block.split("\n").map((row) => [row.split(": ", 1)[0], row.slice(row.indexOf(": ") + 2)]));
  return { id: fields.id, event: /** @type {StreamEvent} */ ({ name: fields.event, data: JSON.parse(fields.data) }) };
}

/**
 * How far the stream was read. Several events may share an id, so the stream may be resumed behind an id only once
 * another id has come, or nothing new.
 */
export class StreamPosition {
  resumeId = "";
  #newestId = "";
  /** @type {Set<string>} */
  #namesAtNewestId = new Set();

  /**
   * Whether an event comes for the first time. Events without an id are never repeated.
   *
   * @param {string | undefined} id
   * @param {string} name
   */
  isNew(id, name) {
    if (!id) return true;
    if (id !== this.#newestId) {
      this.commit();
      this.#newestId = id;
      this.#namesAtNewestId.clear();
    }
    const fresh = !this.#namesAtNewestId.has(name);
    this.#namesAtNewestId.add(name);
    return fresh;
  }

  commit() {
    this.resumeId = this.#newestId;
  }
}
