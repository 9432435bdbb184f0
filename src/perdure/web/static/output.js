// What a process says, as it comes. Whoever has scrolled up to read is left there.
import { call } from "./api.js";
import { find } from "./dom.js";

const EVERY = 1000; // milliseconds between two looks
const MOST = 400_000; // letters that are kept on the page

const output = find("#output");
if (output && "follow" in output.dataset) setTimeout(follow, EVERY);

async function follow() {
  const seen = await call("GET", `${output.dataset.from}?offset=${output.dataset.next}`).catch(() => null);
  if (seen) show(seen);
  const over = seen && seen.state !== "live" && seen.next >= seen.size;
  if (over) end(seen);
  else setTimeout(follow, EVERY);
}

function show({ output: text, next }) {
  output.dataset.next = next;
  if (!text) return;
  const atEnd = output.scrollTop + output.clientHeight >= output.scrollHeight - 8;
  output.append(text);
  if (output.textContent.length > MOST) output.textContent = output.textContent.slice(-MOST);
  find("#output-empty").hidden = true;
  if (atEnd) output.scrollTop = output.scrollHeight;
}

function end({ state, exit_code: code, signal }) {
  const badge = find("#process-state .badge");
  badge.textContent = state;
  badge.className = "badge";
  find("#process-code").textContent = code !== null ? `code ${code}` : signal !== null ? `signal ${signal}` : "";
}
