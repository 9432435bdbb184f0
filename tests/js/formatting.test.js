// Drives the pure functions of static/: format.js, texts.js, api.js, sidebar.js, unsent-messages.js.

import assert from "node:assert/strict";
import { test } from "node:test";

import { HttpRefusal, asProblem, chatFromPath, chatPagePath, chatPath, errorText, isRefusal } from "../../src/perdure/web/static/api.js";
import { formatBytes, formatClock, formatDuration, formatTime, plural } from "../../src/perdure/web/static/format.js";
import { inShownOrder } from "../../src/perdure/web/static/sidebar.js";
import * as texts from "../../src/perdure/web/static/texts.js";
import { loadMessages } from "../../src/perdure/web/static/unsent-messages.js";

test("durations are as long as people say them", () => {
  const shown = [-5, 0, 440, 9_940, 10_400, 119_400, 120_000, 5_400_000].map(formatDuration);
  assert.deepEqual(shown, ["0.0 s", "0.0 s", "0.4 s", "9.9 s", "10 s", "119 s", "2 min", "90 min"]);
});

test("a time of another day has its day", () => {
  const now = Date.now();
  assert.ok(!formatTime(now).includes(","));
  assert.ok(formatTime(now - 3 * 86_400_000).includes(", "));
  assert.ok(formatClock(now).length > formatTime(now).length);
});

test("one is singular, none and several are plural", () => {
  assert.deepEqual([0, 1, 2].map((count) => plural(count, "step")), ["0 steps", "1 step", "2 steps"]);
});

test("bytes have a unit", () => {
  const shown = [null, undefined, 0, 999, 1000, 1_540_000, 2e9, 5e12].map(formatBytes);
  assert.deepEqual(shown, ["", "", "0 B", "999 B", "1.0 KB", "1.5 MB", "2.0 GB", "5000.0 GB"]);
});

test("a refusal is told in sentences", () => {
  assert.equal(errorText(new HttpRefusal(400, { error: "that is no id", hint: "Send another." })), "that is no id. Send another.");
  assert.equal(errorText({ message: "Is it there?" }), "Is it there?");
  assert.equal(errorText(asProblem("odd")), "odd.");
});

test("a refusal has its status", () => {
  assert.ok(isRefusal(new HttpRefusal(404, { error: "gone" }), 404));
  assert.ok(!isRefusal(new HttpRefusal(400, { error: "no" }), 404));
  assert.ok(!isRefusal(new Error("404"), 404));
});

test("the name of a chat survives its address", () => {
  for (const chat of ["home", "a/b c", "100%", "ä?#"]) assert.equal(chatFromPath(chatPagePath(chat)), chat);
  assert.equal(chatPath("a/b"), "/api/chats/a%2Fb");
});

test("an address that is no good encoding is the name itself", () => assert.equal(chatFromPath("/chats/100%"), "100%"));

test("any other page is a new chat", () => assert.equal(chatFromPath("/"), ""));

test("a step tells how often it ran", () => {
  assert.deepEqual([texts.step.runs("cut", 1), texts.step.runs("cut", 2)], ["begun once", "begun 2 times"]);
  assert.deepEqual([texts.step.runs("running", 1), texts.step.runs("running", 2)], ["", "run 2"]);
  assert.deepEqual([texts.step.runs("ok", 1), texts.step.runs("ok", 3)], ["ran once", "ran 3 times"]);
});

test("the summary of a turn counts what is rare only if there is some", () => {
  assert.equal(texts.turn.summary({ steps: 1, interruptions: 0, failures: 0 }), "1 step");
  assert.equal(texts.turn.summary({ steps: 0, interruptions: 1, failures: 2 }, 4000), "0 steps, 1 interruption, 2 failed calls · 4.0 s");
});

test("the outcome of an action is one sentence", () => {
  const { outcome } = texts.consolePage;
  assert.equal(outcome({ said: "It is sent.", done: true }), "It is sent.");
  assert.equal(outcome({ verdict: "late" }), "It was too late: the call did not run.");
  assert.equal(outcome({ verdict: "approved" }), "The call is approved.");
  assert.deepEqual([{ done: 1 }, { answered: true }, { done: 0 }].map(outcome), ["Done.", "Done.", "There was nothing to do."]);
});

test("a process ends with a code, a signal, or nobody knows how", () => {
  const { exit } = texts.processPage;
  assert.deepEqual([exit(0, null), exit(null, 9), exit(null, null)], ["code 0", "signal 9", ""]);
});

test("chats stay in the order that is shown, and new ones wait", () => {
  const chats = ["c", "new", "a"].map((chat) => ({ chat, title: chat, updated_at: 0, waits_for: null }));
  assert.deepEqual(inShownOrder(["a", "b", "c", undefined], chats).map(({ chat }) => chat), ["a", "c"]);
});

/**
 * A storage that holds these items as own properties, as a browser's does.
 *
 * @param {Record<string, string>} items
 */
function storage(items) {
  const getItem = { value: (/** @type {string} */ key) => items[key] ?? null };
  return /** @type {Storage} */ (Object.defineProperties({ ...items }, { getItem }));
}

test("unsent messages are read oldest first, and nothing else is", () => {
  const found = loadMessages(
    storage({
      "perdure.unsent.b": '{"id":"b","at":2}',
      "perdure.theme": "dark",
      "perdure.unsent.a": '{"id":"a","at":1}',
      "perdure.unsent.broken": "null",
    }),
  );
  assert.deepEqual(found.map(({ id }) => id), ["a", "b"]);
});

test("an answer that every object has as a property is an answer like any other", () => {
  assert.equal(texts.lookUp(texts.question.verdicts, "approved"), "Approved");
  assert.equal(texts.lookUp(texts.question.verdicts, "constructor"), undefined);
});
