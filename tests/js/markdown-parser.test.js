// Drives static/markdown-parser.js. tests/browser/test_chat_page.py proves that its trees become elements.

/** @import { MarkdownNode } from "../../src/perdure/web/page-types" */

import assert from "node:assert/strict";
import { test } from "node:test";

import { parseMarkdown } from "../../src/perdure/web/static/markdown-parser.js";

/**
 * A tree as HTML without escapes, for short expectations.
 *
 * @param {MarkdownNode} node
 * @returns {string}
 */
function html(node) {
  if (typeof node === "string") return node;
  const properties = Object.entries(node.properties).map(([name, value]) => ` ${name}=${value}`);
  return `<${node.tag}${properties.join("")}>${node.children.map(html).join("")}</${node.tag}>`;
}

/** @param {string} text */
const parsed = (text) => parseMarkdown(text).map(html).join("");

/** @type {Record<string, [text: string, expected: string]>} */
const CASES = {
  "a paragraph keeps its line breaks": ["one\ntwo", "<p>one<br></br>two</p>"],
  "an empty line ends a paragraph": ["one\n\n\ntwo", "<p>one</p><p>two</p>"],
  "CRLF is a line break": ["one\r\n\r\ntwo", "<p>one</p><p>two</p>"],
  "an empty text has no blocks": ["\n \n", ""],
  "headings begin at the third level": ["# One\n## Two\n###### Six", "<h3>One</h3><h4>Two</h4><h6>Six</h6>"],
  "closing marks of a heading are dropped": ["## Two ##", "<h4>Two</h4>"],
  "a heading needs a space": ["#one", "<p>#one</p>"],
  "a rule": ["---\n* * *", "<hr></hr><hr></hr>"],
  "a quote holds blocks": ["> # a\n> b\nc", "<blockquote><h3>a</h3><p>b</p></blockquote><p>c</p>"],
  "a list": ["- a\n- b", "<ul><li>a</li><li>b</li></ul>"],
  "a list within a list": ["- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"],
  "an ordered list begins with its number": ["3. c\n4) d", "<ol start=3><li>c</li><li>d</li></ol>"],
  "a fence is not parsed": ["```py\n**a**\n\n# b\n```\nc", "<pre tabIndex=0><code>**a**\n\n# b</code></pre><p>c</p>"],
  "a fence that is never closed": ["~~~\na", "<pre tabIndex=0><code>a</code></pre>"],
  "a table": [
    "|a|b|\n|-|-|\n|1|2|",
    "<div className=scroll tabIndex=0><table><thead><tr><th scope=col>a</th><th scope=col>b</th></tr></thead>" +
      "<tbody><tr><td>1</td><td>2</td></tr></tbody></table></div>",
  ],
  "a bar alone is no table": ["a | b\nc", "<p>a | b<br></br>c</p>"],
  "marks within a line": ["a **b** *c* _d_ `e`", "<p>a <strong>b</strong> <em>c</em> <em>d</em> <code>e</code></p>"],
  "marks within marks": ["**a `b`**", "<p><strong>a <code>b</code></strong></p>"],
  "code hides marks": ["`**a**`", "<p><code>**a**</code></p>"],
  "underscores and stars within words are no marks": ["snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"],
  "HTML is text": ["<b>x</b>", "<p><b>x</b></p>"],
};

for (const [name, [text, expected]] of Object.entries(CASES)) test(name, () => assert.equal(parsed(text), expected));

/** @param {string} target */
const linked = (target) => `<a href=${target} rel=noopener noreferrer target=_blank>`;

test("a link opens elsewhere", () => {
  assert.equal(parsed("[x](https://a.example/b_(c))"), `<p>${linked("https://a.example/b_(c)")}x</a></p>`);
});

test("a bare address is a link without the punctuation behind it", () => {
  assert.equal(parsed("see http://a.example/b."), `<p>see ${linked("http://a.example/b")}http://a.example/b</a>.</p>`);
});

for (const target of ["javascript:alert(1)", "data:text/html,x", "ftp://a", "//a.example", "/api/resume"])
  test(`${target} is no link`, () => assert.equal(parsed(`[x](${target})`), `<p>[x](${target})</p>`));

test("what is nested too deeply stays as it was written", () => {
  const tree = parsed("> ".repeat(40) + "deep");
  assert.equal(tree.split("<blockquote>").length - 1, 13);
  assert.ok(tree.includes("<p>" + "> ".repeat(27) + "deep</p>"));
});

test("a line that is too long is not searched for marks", () => {
  assert.equal(parsed("**a**" + "b".repeat(4996)), `<p>**a**${"b".repeat(4996)}</p>`);
  assert.equal(parsed("**a**" + "b".repeat(4995)), `<p><strong>a</strong>${"b".repeat(4995)}</p>`);
});

for (const hostile of ["[".repeat(40_000), "**a".repeat(4000), `# a${" ".repeat(200_000)}b`, `a | b\n${"-".repeat(200_000)}x`, `a\n${">".repeat(100_000)}`])
  test(`a hostile text is parsed: ${JSON.stringify(hostile.slice(0, 12))} and so on`, () => assert.ok(parsed(hostile)));
