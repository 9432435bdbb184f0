// The chat page: puts its parts together and tells each what concerns it.

import { told } from "./api.js";
import { Attaching } from "./attaching.js";
import { Composer } from "./composer.js";
import { Demo } from "./demo.js";
import { find } from "./dom.js";
import { Log } from "./log.js";
import { Presence } from "./presence.js";
import { Sidebar } from "./sidebar.js";
import { follow } from "./stream.js";
import { Unsent } from "./unsent.js";

const { demo: isDemo, supervised } = document.body.dataset;
const PREFIX = "/chats/";
const SETTLES = new Set(["claimed", "finished", "failed", "cancelled", "asked", "answered", "interrupted"]);

let chat = "";
let leave = () => {};

const unsent = new Unsent({
  acknowledged(message, answer) {
    log.acknowledged(message, answer);
    sidebar.refresh();
  },
  refused: (message, error) => log.refused(message, error),
});
const log = new Log(find("#log"), {
  again: (message) => log.sending(unsent.again(message)),
  discard: (message) => unsent.discard(message),
});
const presence = new Presence({ supervised: supervised === "yes" });
const sidebar = new Sidebar((name) => open(name));
const composer = new Composer({ send: say, where: () => chat }, new Attaching());
const demo = isDemo && new Demo({ send: say, killing, counted: (runs) => log.counted(runs) });

function killing() {
  presence.killing();
  log.away(true);
}

const newName = () => crypto.getRandomValues(new BigUint64Array(1))[0].toString(36);

/** The chat that the address names; none: a new one. */
function named() {
  if (!location.pathname.startsWith(PREFIX)) return "";
  const name = location.pathname.slice(PREFIX.length);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // somebody wrote a percent sign, and meant it
  }
}

/** Show a chat, or begin a new one. */
function open(name, { push = true } = {}) {
  leave();
  log.clear();
  chat = name || newName();
  if (push) history.pushState(null, "", name ? PREFIX + encodeURIComponent(name) : "/");
  for (const message of unsent.of(chat)) log.sending(message);
  welcome(!name);
  document.title = "Perdure";
  find("#stop").hidden = true;
  sidebar.show(chat);
  leave = follow(chat, { hear, connected, refused });
  if (matchMedia("(hover: hover)").matches) composer.words.focus({ preventScroll: true }); // else a keyboard pops up
}

function say(text, files = [], to = chat) {
  if (to !== chat) return unsent.add(to, text, files); // somebody has gone to another chat meanwhile
  if (location.pathname === "/") history.replaceState(null, "", PREFIX + encodeURIComponent(chat));
  welcome(false);
  log.sending(unsent.add(chat, text, files));
  if (!presence.here) log.waits();
}

function hear(name, data) {
  if (name === "gateway") return presence.stands(data);
  if (name === "idle") return settled();
  log.hear(name, data);
  find("#stop").hidden = !log.open;
  if (name === "turn" && SETTLES.has(data.move)) sidebar.refresh();
  if (name === "step" || name === "turn") demo && demo.refresh();
}

/** All that has happened so far was heard, also what happened while the gateway was gone. */
function settled() {
  log.settled();
  if (presence.here) log.away(false);
}

function connected(yes) {
  if (!yes) {
    presence.gone();
    log.away(true);
    return;
  }
  presence.back();
  unsent.flush();
  sidebar.refresh();
}

function refused(error, lost) {
  if (lost) open(chat, { push: false }); // what we saw last is gone: read it all again
  else log.hear("notice", { text: told(error) });
}

function welcome(yes) {
  find("#welcome").hidden = !yes;
  if (demo) demo.show(yes);
}

find("#stop").addEventListener("click", () => say("/stop"));
addEventListener("popstate", () => open(named(), { push: false }));
open(named(), { push: false });
