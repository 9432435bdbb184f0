// Drives static/morph.js with the few properties of nodes that it uses.

import assert from "node:assert/strict";
import { test } from "node:test";

import { morph, nodeKey } from "../../src/perdure/web/static/morph.js";
import { TestElement, TestText, asElement, installTestDom } from "./test-dom.js";

installTestDom();

/**
 * @param {string} key
 * @param {string} text
 */
const row = (key, text) => new TestElement("li", { "data-key": key }, new TestText(text));

/** @param {...TestElement} rows */
const list = (...rows) => new TestElement("ul", {}, ...rows);

/**
 * @param {TestElement} old
 * @param {TestElement} newer
 */
function morphed(old, newer) {
  const before = [...old.childNodes];
  morph(asElement(old), asElement(newer));
  assert.equal(String(old), String(newer));
  return before;
}

test("attributes are set, changed and removed", () => {
  morphed(new TestElement("p", { a: "1", b: "1" }), new TestElement("p", { a: "2", c: "3" }));
});

test("what a person has opened stays open", () => {
  const old = new TestElement("details", { open: "" });
  morph(asElement(old), asElement(new TestElement("details")));
  assert.equal(old.getAttribute("open"), "");
});

test("an element without a key is changed where it stands", () => {
  const old = new TestElement("div", {}, new TestElement("p", {}, new TestText("a")));
  const [p] = morphed(old, new TestElement("div", {}, new TestElement("p", {}, new TestText("b"))));
  assert.equal(old.firstChild, p);
});

test("an element of another kind is replaced", () => {
  const old = new TestElement("div", {}, new TestElement("p"));
  const [p] = morphed(old, new TestElement("div", {}, new TestElement("b")));
  assert.ok(old.firstChild !== p);
});

test("what is not there any more is removed, and what is new is added", () => {
  morphed(list(row("a", "1"), row("b", "2")), list(row("b", "2"), row("c", "3")));
  morphed(new TestElement("div", {}, new TestText("a"), new TestElement("p")), new TestElement("div"));
  morphed(new TestElement("div"), new TestElement("div", {}, new TestText("a"), new TestElement("p")));
});

test("an element with a key stays the same element wherever it stands", () => {
  const old = list(row("a", "1"), row("b", "2"), row("c", "3"));
  const [a, b, c] = morphed(old, list(row("c", "3"), row("a", "1"), row("new", "4"), row("b", "2!")));
  assert.deepEqual([old.childNodes[0] === c, old.childNodes[1] === a, old.childNodes[3] === b], [true, true, true]);
});

test("an element is not moved if those before it are removed", () => {
  const old = list(row("a", "1"), row("b", "2"), row("c", "3"));
  const moved = old.insertions;
  morphed(old, list(row("c", "3")));
  assert.equal(old.insertions, moved);
});

test("an element with a known key and another name is new", () => {
  const old = list(row("a", "1"));
  const [a] = morphed(old, list(new TestElement("div", { "data-key": "a" })));
  assert.ok(old.firstChild !== a);
});

test("a button is known by what it does", () => {
  const button = new TestElement("button", { "data-act": "/api/resume", "data-body": "{}", id: "x" });
  assert.equal(nodeKey(asElement(button)), "/api/resume {}");
  assert.equal(nodeKey(asElement(new TestElement("p", { id: "x" }))), "x");
  assert.equal(nodeKey(asElement(new TestElement("p"))), "");
});
