// The console: buttons that ask before they act, and pages that stay fresh.
import { Away, call, reach } from "./api.js";
import { find } from "./dom.js";
import { morph } from "./morph.js";

const EVERY = 3000; // milliseconds between two looks
const SAID = 8000; // milliseconds that an answer stays

const dialog = find("#confirm");
const said = find("#said");
let fading;

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

/** What the gateway says of a deed, in one sentence. */
function told(answer) {
  if (answer.said) return answer.said;
  if (answer.verdict) return `The call is ${answer.verdict}.`;
  return answer.done ? "Done." : "There was nothing to do.";
}

async function act(path, body, done = () => {}) {
  try {
    const answer = await call("POST", path, body);
    done();
    say(told(answer));
  } catch (error) {
    const hint = error.hint ? ` ${error.hint}` : "";
    say(error instanceof Away ? "The gateway does not answer now. Nothing was done." : `${error.message}.${hint}`, true);
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
  if (!live.length || dialog.open) return;
  const response = await reach(location.href).catch(() => null);
  if (!response) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  if (dialog.open) return;
  for (const element of live) {
    const newer = fresh.getElementById(element.id);
    if (newer) morph(element, newer);
  }
}

setInterval(() => document.visibilityState === "visible" && refresh(), EVERY);
