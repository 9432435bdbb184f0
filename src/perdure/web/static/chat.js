// The chat page: puts its parts together and tells each what concerns it.

import { errorText } from "./api.js";
import { AttachmentPicker } from "./attachments.js";
import { Composer } from "./composer.js";
import { ConnectionStatus } from "./connection-status.js";
import { Conversation } from "./conversation.js";
import { DemoPanel } from "./demo.js";
import { find } from "./dom.js";
import { followChat } from "./event-stream.js";
import { Sidebar } from "./sidebar.js";
import { UnsentMessages } from "./unsent-messages.js";

const { demo: isDemo, supervised } = document.body.dataset;
const PREFIX = "/chats/";
const SIDEBAR_MOVES = new Set(["claimed", "finished", "failed", "cancelled", "asked", "answered", "interrupted"]);

let chat = "";
let stopFollowing = () => {};

const unsent = new UnsentMessages({
  markAcknowledged(message, answer) {
    conversation.markAcknowledged(message, answer);
    sidebar.refresh();
  },
  markRefused: (message, error) => conversation.markRefused(message, error),
});
const conversation = new Conversation(find("#log"), {
  resend: (message) => conversation.addUnsent(unsent.resend(message)),
  discard: (message) => unsent.discard(message),
});
const connectionStatus = new ConnectionStatus({ supervised: supervised === "yes" });
const sidebar = new Sidebar((name) => openChat(name));
const composer = new Composer({ send: sendMessage, currentChat: () => chat }, new AttachmentPicker());
const demo = isDemo && new DemoPanel({ send: sendMessage, expectKill, showRuns: (runs) => conversation.showRuns(runs) });

function expectKill() {
  connectionStatus.expectKill();
  conversation.setAway(true);
}

const newChatName = () => crypto.getRandomValues(new BigUint64Array(1))[0].toString(36);

/** The chat that the address names; none: a new one. */
function chatFromAddress() {
  if (!location.pathname.startsWith(PREFIX)) return "";
  const name = location.pathname.slice(PREFIX.length);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // somebody wrote a percent sign, and meant it
  }
}

/** Show a chat, or begin a new one. */
function openChat(name, { push = true } = {}) {
  stopFollowing();
  conversation.clear();
  chat = name || newChatName();
  if (push) history.pushState(null, "", name ? PREFIX + encodeURIComponent(name) : "/");
  for (const message of unsent.ofChat(chat)) conversation.addUnsent(message);
  showWelcome(!name);
  document.title = "Perdure";
  find("#stop").hidden = true;
  sidebar.setCurrent(chat);
  stopFollowing = followChat(chat, { onEvent, onConnection, onRefused });
  if (matchMedia("(hover: hover)").matches) composer.words.focus({ preventScroll: true }); // else a keyboard pops up
}

function sendMessage(text, files = [], to = chat) {
  if (to !== chat) return unsent.add(to, text, files); // somebody has gone to another chat meanwhile
  if (location.pathname === "/") history.replaceState(null, "", PREFIX + encodeURIComponent(chat));
  showWelcome(false);
  conversation.addUnsent(unsent.add(chat, text, files));
  if (!connectionStatus.isConnected) conversation.showWaiting();
}

function onEvent(name, data) {
  if (name === "gateway") return connectionStatus.showGatewayState(data);
  if (name === "idle") return onIdle();
  conversation.applyEvent(name, data);
  find("#stop").hidden = !conversation.openTurn;
  if (name === "turn" && SIDEBAR_MOVES.has(data.move)) sidebar.refresh();
  if (name === "step" || name === "turn") demo && demo.refresh();
}

/** All that has happened so far was heard, also what happened while the gateway was gone. */
function onIdle() {
  conversation.markLoaded();
  if (connectionStatus.isConnected) conversation.setAway(false);
}

function onConnection(yes) {
  if (!yes) {
    connectionStatus.markGone();
    conversation.setAway(true);
    return;
  }
  connectionStatus.markBack();
  unsent.flush();
  sidebar.refresh();
}

function onRefused(error, lost) {
  if (lost) openChat(chat, { push: false }); // what we saw last is gone: read it all again
  else conversation.applyEvent("notice", { text: errorText(error) });
}

function showWelcome(yes) {
  find("#welcome").hidden = !yes;
  if (demo) demo.show(yes);
}

find("#stop").addEventListener("click", () => sendMessage("/stop"));
addEventListener("popstate", () => openChat(chatFromAddress(), { push: false }));
openChat(chatFromAddress(), { push: false });
