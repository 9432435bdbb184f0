// Drives static/event-parser.js: one block of the stream, and the position from which the stream is resumed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { StreamPosition, parseBlock } from "../../src/perdure/web/static/event-parser.js";

test("a block with an id is an event", () => {
  const block = 'id: 1.s_1.2\nevent: notice\ndata: {"text":"a: b"}';
  assert.deepEqual(parseBlock(block), { id: "1.s_1.2", event: { name: "notice", data: { text: "a: b" } } });
});

test("a block without an id is an event, too", () => {
  assert.equal(parseBlock('event: gateway\ndata: {"phase":"ready"}')?.id, undefined);
});

test("a comment is no event", () => assert.equal(parseBlock(": still here"), null));

test("events without an id are always new", () => {
  const position = new StreamPosition();
  assert.ok(position.isNew(undefined, "preview"));
  assert.ok(position.isNew(undefined, "preview"));
  assert.equal(position.resumeId, "");
});

test("two events of one id are new once each", () => {
  const position = new StreamPosition();
  assert.deepEqual(["turn", "question", "turn", "question"].map((name) => position.isNew("1", name)), [true, true, false, false]);
});

test("the stream is resumed before an id of which more events may come", () => {
  const position = new StreamPosition();
  position.isNew("1", "turn");
  assert.equal(position.resumeId, "");
  position.isNew("2", "turn");
  assert.equal(position.resumeId, "1");
});

test("the stream is resumed behind the newest id when there is nothing new", () => {
  const position = new StreamPosition();
  position.isNew("1", "turn");
  position.commit();
  assert.equal(position.resumeId, "1");
});

test("an event that is repeated after a break is not new", () => {
  const position = new StreamPosition();
  position.isNew("1", "message");
  position.isNew("2", "turn");
  assert.equal(position.isNew("2", "turn"), false);
  assert.ok(position.isNew("2", "question"));
});
