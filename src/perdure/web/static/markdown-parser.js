// Parses a small part of Markdown into a tree. What the parser does not know stays as it was written.

/** @import { MarkdownElement, MarkdownNode } from "../page-types" */

/** @typedef {[element: MarkdownElement, next: number]} Block the element of a block, and the line behind it */

const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const BLOCKS = [fence, heading, rule, quote, list, table, paragraph];
const MAX_DEPTH = 12; // of quotes and lists within each other; what lies deeper is shown as it was written
const MAX_LINE_CHARACTERS = 5000; // a longer line is not searched for marks

/**
 * The tree of a text.
 *
 * @param {string} text
 * @returns {MarkdownNode[]}
 */
export function parseMarkdown(text, depth = 0) {
  if (depth > MAX_DEPTH) return [element("p", {}, text)];
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const found = [];
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    const [block, next] = firstBlock(lines, at, depth);
    found.push(block);
    at = next;
  }
  return found;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block}
 */
function firstBlock(lines, at, depth) {
  for (const parse of BLOCKS) {
    const block = parse(lines, at, depth);
    if (block) return block;
  }
  return paragraph(lines, at);
}

/**
 * @param {MarkdownElement["tag"]} tag
 * @param {MarkdownElement["properties"]} [properties]
 * @param {...MarkdownNode} children
 * @returns {MarkdownElement}
 */
function element(tag, properties = {}, ...children) {
  return { tag, properties, children };
}

/**
 * The lines from `at` on for which a condition holds, and the index behind them.
 *
 * @param {string[]} lines
 * @param {number} at
 * @param {(line: string) => boolean} holds
 * @returns {[taken: string[], end: number]}
 */
function takeLines(lines, at, holds) {
  let end = at;
  while (end < lines.length && holds(lines[end])) end++;
  return [lines.slice(at, end), end];
}

// ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────

// How the lines of a block begin. None of these may take long, however long the line is.
const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const BLOCK_STARTS = [FENCE, HEADING, RULE, QUOTE, ITEM];

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block | null}
 */
function fence(lines, at) {
  const opening = FENCE.exec(lines[at]);
  if (!opening) return null;
  const [body, end] = takeLines(lines, at + 1, (line) => !line.trim().startsWith(opening[1]));
  return [element("pre", { tabIndex: 0 }, element("code", {}, body.join("\n"))), end + 1];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block | null}
 */
function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  let words = found[2].trimEnd();
  while (words.endsWith("#")) words = words.slice(0, -1);
  // A page has its own headings above: those of a message begin at the third level.
  const level = /** @type {3 | 4 | 5 | 6} */ (Math.min(6, found[1].length + 2));
  return [element(`h${level}`, {}, ...inline(words.trimEnd())), at + 1];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block | null}
 */
function rule(lines, at) {
  return RULE.test(lines[at]) ? [element("hr"), at + 1] : null;
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block | null}
 */
function quote(lines, at, depth) {
  const [body, end] = takeLines(lines, at, (line) => QUOTE.test(line));
  if (!body.length) return null;
  return [element("blockquote", {}, ...parseMarkdown(body.map((line) => line.replace(QUOTE, "")).join("\n"), depth + 1)), end];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @param {number} depth
 * @returns {Block | null}
 */
function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const indent = first[1].length;
  const [body, end] = takeLines(lines, at, (line) => ITEM.test(line) || /^ {2,}\S/.test(line));
  /** @type {string[][]} */
  const items = [];
  for (const line of body) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent) items.push([found[3]]);
    else items.at(-1)?.push(line.replace(/^ {1,4}/, ""));
  }
  const children = items.map((each) => listItem(each, depth));
  const isOrdered = /\d/.test(first[2]);
  return [isOrdered ? element("ol", { start: parseInt(first[2], 10) }, ...children) : element("ul", {}, ...children), end];
}

/**
 * @param {string[]} lines
 * @param {number} depth
 */
function listItem([first, ...rest], depth) {
  return element("li", {}, ...inline(first), ...(rest.length ? parseMarkdown(rest.join("\n"), depth + 1) : []));
}

/** @param {string} line */
const tableCells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block | null}
 */
function table(lines, at) {
  const below = lines[at + 1] ?? "";
  if (!lines[at].includes("|") || !/^[ |:-]+$/.test(below) || !below.includes("-") || !below.includes("|")) return null;
  const [body, end] = takeLines(lines, at + 2, (line) => line.includes("|"));
  const head = element("tr", {}, ...tableCells(lines[at]).map((cell) => element("th", { scope: "col" }, ...inline(cell))));
  const rows = body.map((line) => element("tr", {}, ...tableCells(line).map((cell) => element("td", {}, ...inline(cell)))));
  const made = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return [element("div", { className: "scroll", tabIndex: 0 }, made), end];
}

/**
 * @param {string[]} lines
 * @param {number} at
 * @returns {Block}
 */
function paragraph(lines, at) {
  const [body, end] = takeLines(lines, at + 1, (line) => line.trim() !== "" && !BLOCK_STARTS.some((mark) => mark.test(line)));
  const text = [lines[at], ...body].map((line) => line.trimEnd());
  const parts = text.flatMap((line, n) => (n ? [element("br"), ...inline(line)] : inline(line)));
  return [element("p", {}, ...parts), end];
}

// ── marks within a line ──────────────────────────────────────────────────────────────────────────────────────

/** @type {[mark: RegExp, make: (found: RegExpExecArray) => MarkdownNode][]} */
const INLINE_MARKS = [
  [/`([^`]+)`/, (found) => element("code", {}, found[1])],
  [/\[([^\]]+)\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)/, (found) => (SAFE_LINK.test(found[2]) ? link(found[2], inline(found[1])) : found[0])],
  [/\*\*(?=\S)(.+?\S?)\*\*/, (found) => element("strong", {}, ...inline(found[1]))],
  [/(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])/, (found) => element("em", {}, ...inline(found[1]))],
  [/(?<!\w)_(?=[^\s_])(.+?)(?<=[^\s_])_(?!\w)/, (found) => element("em", {}, ...inline(found[1]))],
  [/https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/, (found) => link(found[0], [found[0]])],
];

/**
 * The text and elements of a line.
 *
 * @param {string} text
 * @returns {MarkdownNode[]}
 */
function inline(text) {
  /** @type {MarkdownNode[]} */
  const parts = [];
  while (text) {
    const first = text.length <= MAX_LINE_CHARACTERS ? firstMark(text) : null;
    if (!first) break;
    parts.push(text.slice(0, first.found.index), first.make(first.found));
    text = text.slice(first.found.index + first.found[0].length);
  }
  return [...parts, text].filter((part) => part !== "");
}

/** @param {string} text */
function firstMark(text) {
  let first = null;
  for (const [mark, make] of INLINE_MARKS) {
    const found = mark.exec(text);
    if (found && (!first || found.index < first.found.index)) first = { found, make };
  }
  return first;
}

/**
 * @param {string} target
 * @param {MarkdownNode[]} children
 */
function link(target, children) {
  return element("a", { href: target, rel: "noopener noreferrer", target: "_blank" }, ...children);
}
