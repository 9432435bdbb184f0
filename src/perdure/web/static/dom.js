// Makes and finds elements. Whatever people and models say becomes text, never HTML.

/** @import { Child } from "../page-types" */

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
