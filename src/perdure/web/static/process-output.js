// What a process says, as it comes. Whoever has scrolled up to read is left there.
import { callApi } from "./api.js";
import { find } from "./dom.js";

const POLL_MS = 1000; // milliseconds between two looks
const MAX_CHARACTERS = 400_000; // letters that are kept on the page

const output = find("#output");
if (output && "follow" in output.dataset) setTimeout(pollOutput, POLL_MS);

async function pollOutput() {
  const seen = await callApi("GET", `${output.dataset.from}?offset=${output.dataset.next}`).catch(() => null);
  if (seen) appendOutput(seen);
  const over = seen && seen.state !== "live" && seen.next >= seen.size;
  if (over) showExit(seen);
  else setTimeout(pollOutput, POLL_MS);
}

function appendOutput({ output: text, next }) {
  output.dataset.next = next;
  if (!text) return;
  const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
  output.append(text);
  if (output.textContent.length > MAX_CHARACTERS) output.textContent = output.textContent.slice(-MAX_CHARACTERS);
  find("#output-empty").hidden = true;
  if (atEnd) output.scrollTop = output.scrollHeight;
}

function showExit({ state, exit_code: code, signal }) {
  const badge = find("#process-state .badge");
  badge.textContent = state;
  badge.className = "badge";
  find("#process-code").textContent = code !== null ? `code ${code}` : signal !== null ? `signal ${signal}` : "";
}
