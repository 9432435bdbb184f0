// The console: buttons that ask for confirmation before they act, and pages that refresh themselves.

/** @import { Confirmation } from "../page-types" */

import { GatewayUnavailable, asProblem, callApi, errorText, fetchOk, isRefusal } from "./api.js";
import { closest, find, need } from "./dom.js";
import { morph } from "./morph.js";
import * as texts from "./texts.js";

const REFRESH_MS = 3000;
const MESSAGE_MS = 8000; // how long the outcome of an action is shown

const dialog = need("#confirm", HTMLDialogElement);
const messageElement = need("#said");
const staleElement = need("#stale");
/** @type {ReturnType<typeof setTimeout> | undefined} */
let messageTimer;
let refreshing = false;
let seenAt = Date.now();

/**
 * Ask in the dialog; true if the person says yes. Escape means no.
 *
 * @param {Confirmation} confirmation
 * @returns {Promise<boolean>}
 */
function confirmAction({ question = "", means = "", about = "", label = "", danger = false }) {
  need("#confirm-question").textContent = question;
  need("#confirm-means").textContent = means;
  need("#confirm-about").textContent = about;
  const yes = need("#confirm-yes");
  yes.textContent = label;
  yes.className = danger ? "button danger" : "button primary";
  dialog.returnValue = "no";
  dialog.showModal();
  yes.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/**
 * Show the outcome of an action for a while.
 *
 * @param {string} text
 */
function showMessage(text, bad = false) {
  clearTimeout(messageTimer);
  messageElement.textContent = text;
  messageElement.classList.toggle("bad", bad);
  messageElement.hidden = false;
  messageTimer = setTimeout(() => (messageElement.hidden = true), MESSAGE_MS);
}

/**
 * @param {string} path
 * @param {object} body
 */
async function postAction(path, body, onDone = () => {}) {
  try {
    const answer = await callApi("POST", path, body);
    onDone();
    showMessage(texts.consolePage.outcome(answer));
  } catch (error) {
    showMessage(error instanceof GatewayUnavailable ? texts.consolePage.unavailable : errorText(asProblem(error)), true);
  }
  await refresh();
}

document.addEventListener("click", async (event) => {
  const button = closest(event, "[data-act]");
  if (!button) return;
  const { act: path = "", body = "{}", question, means, about } = button.dataset;
  const label = button.firstChild?.textContent?.trim();
  if (await confirmAction({ question, means, about, label, danger: "danger" in button.dataset })) {
    await postAction(path, JSON.parse(body));
  }
});

document.addEventListener("submit", async (event) => {
  const form = closest(event, "[data-form]");
  if (!(form instanceof HTMLFormElement)) return;
  event.preventDefault();
  const fields = new FormData(form);
  const [code, role] = [String(fields.get("code")), String(fields.get("role"))];
  const { form: path = "", question, means, label } = form.dataset;
  if (await confirmAction({ question, means, about: texts.consolePage.pairing(code, role), label })) {
    const body = { code: code.trim(), role, here: fields.get("here") === "here" };
    await postAction(path, body, () => form.reset()); // a refused form keeps its fields, to be corrected
  }
});

/** Bring the live parts of this page up to date without disturbing a person who types or reads there. */
async function refresh() {
  const live = document.querySelectorAll("[data-live]");
  if (!live.length || dialog.open || refreshing) return;
  refreshing = true;
  const fresh = await fetchPage().finally(() => (refreshing = false));
  staleElement.hidden = fresh !== null;
  staleElement.textContent = fresh ? "" : texts.consolePage.stale(seenAt);
  if (!fresh || dialog.open || find("[data-live]:active")) return; // a button that is pressed now must not change
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
    if (isRefusal(error, 404)) location.reload(); // the error page says what is gone
    return null;
  }
}

find(".subnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // the bar scrolls on a phone
setInterval(() => document.visibilityState === "visible" && refresh(), REFRESH_MS);
