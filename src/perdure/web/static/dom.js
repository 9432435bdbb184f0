// Makes and finds elements, and formats times. Whatever people and models say becomes text, never HTML.

/** @import { Child, Timestamp } from "../page-types" */

/**
 * An element with its properties and children; strings become text.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else if (name in element && name !== "list" && !name.includes("-")) Object.assign(element, { [name]: value });
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/**
 * The first element that a selector matches, if there is one.
 *
 * @param {string} selector
 * @param {ParentNode} [root]
 * @returns {HTMLElement | null}
 */
export const find = (selector, root = document) => root.querySelector(selector);

/**
 * The element that a selector matches, of the kind that the template gives it. A page without it is broken.
 *
 * @template {HTMLElement} [Kind=HTMLElement]
 * @param {string} selector
 * @param {new () => Kind} [kind]
 * @param {ParentNode} [root]
 * @returns {Kind}
 */
export function need(selector, kind, root = document) {
  const found = root.querySelector(selector);
  if (!(found instanceof (kind ?? HTMLElement))) throw new Error(`the page has no ${selector}`);
  return /** @type {Kind} */ (found);
}

/**
 * The element around the place of an event that a selector matches, if there is one.
 *
 * @param {Event} event
 * @param {string} selector
 * @returns {HTMLElement | null}
 */
export function closest(event, selector) {
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

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
