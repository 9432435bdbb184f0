// The console: buttons that ask before they act, and pages that stay fresh.
import { GatewayUnavailable, callApi, errorText, fetchOk } from "./api.js";
import { find, formatTime } from "./dom.js";
import { morph } from "./morph.js";

const REFRESH_MS = 3000; // milliseconds between two looks
const MESSAGE_MS = 8000; // milliseconds that an answer stays

const dialog = find("#confirm");
const messageElement = find("#said");
const staleElement = find("#stale");
let messageTimer;
let refreshing = false;
let seenAt = Date.now();

/** Ask in the dialog; true if the person says yes. Escape means no. */
function confirmAction({ question, means, about, label, danger }) {
  find("#confirm-question").textContent = question;
  find("#confirm-means").textContent = means;
  find("#confirm-about").textContent = about ?? "";
  const yes = find("#confirm-yes");
  yes.textContent = label;
  yes.className = danger ? "button danger" : "button primary";
  dialog.returnValue = "no";
  dialog.showModal();
  yes.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Tell what came of it, for a while. */
function showMessage(text, bad = false) {
  clearTimeout(messageTimer);
  messageElement.textContent = text;
  messageElement.classList.toggle("bad", bad);
  messageElement.hidden = false;
  messageTimer = setTimeout(() => (messageElement.hidden = true), MESSAGE_MS);
}

/** What the gateway says of an act, in one sentence. */
function outcomeText(answer) {
  if (answer.said) return answer.said;
  if (answer.verdict === "late") return "It was too late: the call did not run.";
  if (answer.verdict) return `The call is ${answer.verdict}.`;
  return answer.done || answer.answered ? "Done." : "There was nothing to do.";
}

async function postAction(path, body, done = () => {}) {
  try {
    const answer = await callApi("POST", path, body);
    done();
    showMessage(outcomeText(answer));
  } catch (error) {
    showMessage(error instanceof GatewayUnavailable ? "The gateway does not answer now. Once it is back, this page shows whether that was done." : errorText(error), true);
  }
  await refresh();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const { act: path, body, question, means, about } = button.dataset;
  const label = button.firstChild.textContent.trim();
  if (await confirmAction({ question, means, about, label, danger: "danger" in button.dataset })) {
    await postAction(path, JSON.parse(body));
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-form]");
  if (!form) return;
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(form));
  const { form: path, question, means, label } = form.dataset;
  const about = `${fields.code} as ${fields.role}`;
  if (await confirmAction({ question, means, about, label })) {
    const wish = { code: fields.code.trim(), role: fields.role, here: fields.here === "here" };
    await postAction(path, wish, () => form.reset()); // what was refused stays there to be mended
  }
});

/** Bring what is live on this page up to date; whoever types or reads there is not disturbed. */
async function refresh() {
  const live = document.querySelectorAll("[data-live]");
  if (!live.length || dialog.open || refreshing) return;
  refreshing = true;
  const fresh = await fetchPage().finally(() => (refreshing = false));
  staleElement.hidden = fresh !== null;
  staleElement.textContent = fresh ? "" : `The gateway does not answer. What you see is from ${formatTime(seenAt)}.`;
  if (!fresh || dialog.open || find("[data-live]:active")) return; // whoever presses something there gets that
  seenAt = Date.now();
  for (const element of live) {
    const newer = fresh.getElementById(element.id);
    if (newer) morph(element, newer);
  }
}

/** This page as it is now; null if the gateway does not show it. */
async function fetchPage() {
  try {
    const response = await fetchOk(location.href);
    if (response.redirected) location.assign(response.url); // a login is needed
    return new DOMParser().parseFromString(await response.text(), "text/html");
  } catch (error) {
    if (error.status === 404) location.reload(); // it is gone, and its page says so
    return null;
  }
}

find(".subnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone, it scrolls
setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_MS);
