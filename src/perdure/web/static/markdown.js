// Makes elements of Markdown.

/** @import { MarkdownNode } from "../page-types" */

import { el } from "./dom.js";
import { parseMarkdown } from "./markdown-parser.js";

/**
 * The elements of a text.
 *
 * @param {string} text
 */
export function renderMarkdown(text) {
  const fragment = document.createDocumentFragment();
  fragment.append(...parseMarkdown(text).map(renderNode));
  return fragment;
}

/**
 * @param {MarkdownNode} node
 * @returns {HTMLElement | string}
 */
function renderNode(node) {
  return typeof node === "string" ? node : el(node.tag, node.properties, ...node.children.map(renderNode));
}
