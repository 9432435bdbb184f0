// Numbers and times as people say them.

/** @import { Timestamp } from "../page-types" */

/**
 * Milliseconds as people say them: 0.4 s, 12 s, 3 min.
 *
 * @param {number} milliseconds
 */
export function formatDuration(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

/**
 * The time of day, and the day too if it is not today.
 *
 * @param {Timestamp} at
 */
export function formatTime(at) {
  const when = new Date(at);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const today = when.toDateString() === new Date().toDateString();
  return today ? time : `${when.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/**
 * The time of day with its seconds.
 *
 * @param {Timestamp} at
 */
export const formatClock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/**
 * One, or several: plural(2, "step") is "2 steps".
 *
 * @param {number} count
 * @param {string} noun
 */
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

/**
 * Bytes as people say them.
 *
 * @param {number | null | undefined} bytes
 */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "";
  const units = ["B", "KB", "MB", "GB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log10(Math.max(1, bytes)) / 3));
  return `${(bytes / 1000 ** power).toFixed(power ? 1 : 0)} ${units[power]}`;
}
