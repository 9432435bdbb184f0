// A small part of Markdown, made into elements: what is not understood stays as it was written.

import { el } from "./dom.js";

const SAFE_LINK = /^(https?:\/\/|mailto:)/i;
const BLOCKS = [fence, heading, rule, quote, list, table, paragraph];
const MAX_DEPTH = 12; // quotes and lists within each other; what lies deeper is shown as it was written
const MAX_LINE_CHARACTERS = 5000; // letters of a line in which marks are looked for

/** The elements of a text. */
export function renderMarkdown(text, depth = 0) {
  if (depth > MAX_DEPTH) return el("p", {}, text);
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  const found = document.createDocumentFragment();
  let at = 0;
  while (at < lines.length) {
    if (!lines[at].trim()) {
      at++;
      continue;
    }
    for (const block of BLOCKS) {
      const [element, next] = block(lines, at, depth) ?? [];
      if (!element) continue;
      found.append(element);
      at = next;
      break;
    }
  }
  return found;
}

/** The lines from a place on for which something holds, and where they end. */
function takeLines(lines, at, holds) {
  let end = at;
  while (end < lines.length && holds(lines[end])) end++;
  return [lines.slice(at, end), end];
}

// How the lines of a block begin. None of these may take long, however long the line is.
const FENCE = /^ {0,3}(```+|~~~+)/;
const HEADING = /^(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])( *\1){2,} *$/;
const QUOTE = /^> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const BLOCK_STARTS = [FENCE, HEADING, RULE, QUOTE, ITEM];

function fence(lines, at) {
  const opening = FENCE.exec(lines[at]);
  if (!opening) return null;
  const [body, end] = takeLines(lines, at + 1, (line) => !line.trim().startsWith(opening[1]));
  return [el("pre", { tabIndex: 0 }, el("code", {}, body.join("\n"))), end + 1];
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  let words = found[2].trimEnd();
  while (words.endsWith("#")) words = words.slice(0, -1);
  // A page has its own headings above: those of a message begin at the third level.
  return [el(`h${Math.min(6, found[1].length + 2)}`, {}, ...inline(words.trimEnd())), at + 1];
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? [el("hr"), at + 1] : null;
}

function quote(lines, at, depth) {
  const [body, end] = takeLines(lines, at, (line) => QUOTE.test(line));
  if (!body.length) return null;
  return [el("blockquote", {}, renderMarkdown(body.map((line) => line.replace(QUOTE, "")).join("\n"), depth + 1)), end];
}

function list(lines, at, depth) {
  const first = ITEM.exec(lines[at]);
  if (!first) return null;
  const indent = first[1].length;
  const [body, end] = takeLines(lines, at, (line) => ITEM.test(line) || /^ {2,}\S/.test(line));
  const items = [];
  for (const line of body) {
    const found = ITEM.exec(line);
    if (found && found[1].length <= indent) items.push([found[3]]);
    else items.at(-1).push(line.replace(/^ {1,4}/, ""));
  }
  const ordered = /\d/.test(first[2]);
  const properties = ordered ? { start: parseInt(first[2], 10) } : {};
  return [el(ordered ? "ol" : "ul", properties, ...items.map((lines) => listItem(lines, depth))), end];
}

function listItem([first, ...rest], depth) {
  return el("li", {}, ...inline(first), rest.length ? renderMarkdown(rest.join("\n"), depth + 1) : null);
}

const tableCells = (line) => line.trim().replace(/^\||\|$/g, "").split("|").map((cell) => cell.trim());

function table(lines, at) {
  const below = lines[at + 1] ?? "";
  if (!lines[at].includes("|") || !/^[ |:-]+$/.test(below) || !below.includes("-") || !below.includes("|")) return null;
  const [body, end] = takeLines(lines, at + 2, (line) => line.includes("|"));
  const head = el("tr", {}, ...tableCells(lines[at]).map((cell) => el("th", { scope: "col" }, ...inline(cell))));
  const rows = body.map((line) => el("tr", {}, ...tableCells(line).map((cell) => el("td", {}, ...inline(cell)))));
  return [el("div", { className: "scroll", tabIndex: 0 }, el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows))), end];
}

function paragraph(lines, at) {
  const [body, end] = takeLines(lines, at + 1, (line) => line.trim() && !BLOCK_STARTS.some((mark) => mark.test(line)));
  const text = [lines[at], ...body].map((line) => line.trimEnd());
  const parts = text.flatMap((line, n) => (n ? [el("br"), ...inline(line)] : inline(line)));
  return [el("p", {}, ...parts), end];
}

// ── within a line ────────────────────────────────────────────────────────────────────────────────────────────

const INLINE_MARKS = [
  [/`([^`]+)`/, (found) => el("code", {}, found[1])],
  [/\[([^\]]+)\]\(([^()\s]+(?:\([^()\s]*\)[^()\s]*)*)\)/, (found) => link(found[2], inline(found[1])) ?? found[0]],
  [/\*\*(?=\S)(.+?\S?)\*\*/, (found) => el("strong", {}, ...inline(found[1]))],
  [/(?<![\w*])\*(?=[^\s*])(.+?)(?<=[^\s*])\*(?![\w*])/, (found) => el("em", {}, ...inline(found[1]))],
  [/(?<!\w)_(?=[^\s_])(.+?)(?<=[^\s_])_(?!\w)/, (found) => el("em", {}, ...inline(found[1]))],
  [/https?:\/\/[^\s<>"'`]*[^\s<>"'`.,;:!?)\]]/, (found) => link(found[0], [found[0]])],
];

/** The text and elements of a line. */
function inline(text) {
  const parts = [];
  while (text) {
    const { found, make } = (text.length <= MAX_LINE_CHARACTERS && firstMark(text)) || {};
    if (!found) break;
    parts.push(text.slice(0, found.index), make(found));
    text = text.slice(found.index + found[0].length);
  }
  return [...parts, text].filter((part) => part !== "");
}

function firstMark(text) {
  const all = INLINE_MARKS.map(([mark, make]) => ({ found: mark.exec(text), make })).filter(({ found }) => found);
  return all.reduce((first, each) => (first && first.found.index <= each.found.index ? first : each), null);
}

function link(target, shown) {
  return SAFE_LINK.test(target) ? el("a", { href: target, rel: "noopener noreferrer", target: "_blank" }, ...shown) : null;
}
