// Shows the output of a live process as it comes. A reader who has scrolled up is left there.

/** @import { ProcessOutput } from "../page-types" */

import { callApi } from "./api.js";
import { find, need } from "./dom.js";
import * as texts from "./texts.js";

const POLL_MS = 1000;
const MAX_CHARACTERS = 400_000; // of the output on the page
const NEAR_END_PIXELS = 8;

const element = find("#output");
if (element && "follow" in element.dataset) setTimeout(() => pollOutput(element), POLL_MS);

/** @param {HTMLElement} output */
async function pollOutput(output) {
  const path = `${output.dataset.from}?offset=${output.dataset.next}`;
  /** @type {ProcessOutput | null} */
  const seen = await callApi("GET", path).catch(() => null);
  if (seen) appendOutput(output, seen);
  const over = seen && seen.state !== "live" && seen.next >= seen.size;
  if (over) showExit(seen);
  else setTimeout(() => pollOutput(output), POLL_MS);
}

/**
 * @param {HTMLElement} output
 * @param {ProcessOutput} seen
 */
function appendOutput(output, { output: text, next }) {
  output.dataset.next = String(next);
  if (!text) return;
  const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - NEAR_END_PIXELS;
  output.append(text);
  const shown = output.textContent ?? "";
  if (shown.length > MAX_CHARACTERS) output.textContent = shown.slice(-MAX_CHARACTERS);
  need("#output-empty").hidden = true;
  if (atEnd) output.scrollTop = output.scrollHeight;
}

/** @param {ProcessOutput} ended */
function showExit({ state, exit_code: code, signal }) {
  const badge = need("#process-state .badge");
  badge.textContent = state;
  badge.className = "badge";
  need("#process-code").textContent = texts.processPage.exit(code, signal);
}
