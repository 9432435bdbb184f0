// Drives static/message-merge.js: a message that this page sends is shown once, whatever comes first.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MessageMerge } from "../../src/perdure/web/static/message-merge.js";

/**
 * @param {string} id
 * @param {string} text
 */
const mine = (id, text, author = "user") => ({ id, author, text });

function sending(text = "hi") {
  const merge = new MessageMerge();
  merge.addSent("own", text);
  return merge;
}

test("the event comes before the receipt", () => {
  const merge = sending();
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "adopt", ownId: "own" });
  assert.equal(merge.mergeReceipt("own", "in_1"), "ignore");
});

test("the receipt comes before the event", () => {
  const merge = sending();
  assert.equal(merge.mergeReceipt("own", "in_1"), "adopt");
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "ignore" });
});

test("an event that is repeated is ignored", () => {
  const merge = new MessageMerge();
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "add" });
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "ignore" });
});

test("other words are another message", () => {
  const merge = sending("hi");
  assert.deepEqual(merge.mergeEvent(mine("in_1", "ho")), { action: "add" });
  assert.equal(merge.firstUnarrived, "own");
});

test("an agent that repeats the words has not sent the message", () => {
  assert.deepEqual(sending().mergeEvent(mine("out_1", "hi", "agent")), { action: "add" });
});

test("the same words of somebody else are shown beside ours", () => {
  const merge = sending();
  assert.deepEqual(merge.mergeEvent(mine("in_theirs", "hi")), { action: "adopt", ownId: "own" });
  assert.equal(merge.mergeReceipt("own", "in_ours"), "add");
  assert.deepEqual(merge.mergeEvent(mine("in_ours", "hi")), { action: "ignore" });
});

test("a message whose event was shown on its own is removed by its receipt", () => {
  const merge = sending("hi");
  merge.mergeEvent(mine("in_1", "hi (edited)"));
  assert.equal(merge.mergeReceipt("own", "in_1"), "remove");
});

test("the same words sent twice are adopted one after the other", () => {
  const merge = sending();
  merge.addSent("second", "hi");
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "adopt", ownId: "own" });
  assert.deepEqual(merge.mergeEvent(mine("in_2", "hi")), { action: "adopt", ownId: "second" });
});

test("a refused message adopts nothing and does not wait", () => {
  const merge = sending();
  merge.markRefused("own");
  assert.deepEqual(merge.waiting, []);
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "add" });
});

test("a discarded message is forgotten", () => {
  const merge = sending();
  merge.deleteSent("own");
  assert.equal(merge.firstUnarrived, undefined);
  assert.equal(merge.mergeReceipt("own", "in_1"), "ignore");
});

test("another chat begins with nothing", () => {
  const merge = sending();
  merge.mergeEvent(mine("in_1", "hi"));
  merge.clear();
  assert.deepEqual(merge.waiting, []);
  assert.deepEqual(merge.mergeEvent(mine("in_1", "hi")), { action: "add" });
});
