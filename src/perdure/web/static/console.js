// The console: buttons that ask before they act, and pages that stay fresh.
import { Away, call, reach, told } from "./api.js";
import { find, moment } from "./dom.js";
import { morph } from "./morph.js";

const EVERY = 3000; // milliseconds between two looks
const SAID = 8000; // milliseconds that an answer stays

const dialog = find("#confirm");
const said = find("#said");
const stale = find("#stale");
let fading;
let looking = false;
let seenAt = Date.now();

/** Ask in the dialog; true if the person says yes. Escape means no. */
function confirmed({ question, means, about, label, danger }) {
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
function say(text, bad = false) {
  clearTimeout(fading);
  said.textContent = text;
  said.classList.toggle("bad", bad);
  said.hidden = false;
  fading = setTimeout(() => (said.hidden = true), SAID);
}

/** What the gateway says of an act, in one sentence. */
function outcome(answer) {
  if (answer.said) return answer.said;
  if (answer.verdict === "late") return "It was too late: the call did not run.";
  if (answer.verdict) return `The call is ${answer.verdict}.`;
  return answer.done || answer.answered ? "Done." : "There was nothing to do.";
}

async function act(path, body, done = () => {}) {
  try {
    const answer = await call("POST", path, body);
    done();
    say(outcome(answer));
  } catch (error) {
    say(error instanceof Away ? "The gateway does not answer now. Once it is back, this page shows whether that was done." : told(error), true);
  }
  await refresh();
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-act]");
  if (!button) return;
  const { act: path, body, question, means, about } = button.dataset;
  const label = button.firstChild.textContent.trim();
  if (await confirmed({ question, means, about, label, danger: "danger" in button.dataset })) {
    await act(path, JSON.parse(body));
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target.closest("[data-form]");
  if (!form) return;
  event.preventDefault();
  const fields = Object.fromEntries(new FormData(form));
  const { form: path, question, means, label } = form.dataset;
  const about = `${fields.code} as ${fields.role}`;
  if (await confirmed({ question, means, about, label })) {
    const wish = { code: fields.code.trim(), role: fields.role, here: fields.here === "here" };
    await act(path, wish, () => form.reset()); // what was refused stays there to be mended
  }
});

/** Bring what is live on this page up to date; whoever types or reads there is not disturbed. */
async function refresh() {
  const live = document.querySelectorAll("[data-live]");
  if (!live.length || dialog.open || looking) return;
  looking = true;
  const fresh = await look().finally(() => (looking = false));
  stale.hidden = fresh !== null;
  stale.textContent = fresh ? "" : `The gateway does not answer. What you see is from ${moment(seenAt)}.`;
  if (!fresh || dialog.open || find("[data-live]:active")) return; // whoever presses something there gets that
  seenAt = Date.now();
  for (const element of live) {
    const newer = fresh.getElementById(element.id);
    if (newer) morph(element, newer);
  }
}

/** This page as it is now; null if the gateway does not show it. */
async function look() {
  try {
    const response = await reach(location.href);
    if (response.redirected) location.assign(response.url); // a login is needed
    return new DOMParser().parseFromString(await response.text(), "text/html");
  } catch (error) {
    if (error.status === 404) location.reload(); // it is gone, and its page says so
    return null;
  }
}

find(".subnav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone, it scrolls
setInterval(() => document.visibilityState === "visible" && refresh(), EVERY);
