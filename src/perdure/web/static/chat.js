// The chat page: creates its parts and passes events and messages between them.

/** @import { Attachment, Problem, StreamEvent } from "../page-types" */

import { chatFromPath, chatPagePath, errorText } from "./api.js";
import { AttachmentPicker } from "./attachments.js";
import { Composer } from "./composer.js";
import { ConnectionStatus } from "./connection-status.js";
import { Conversation } from "./conversation.js";
import { DemoPanel } from "./demo.js";
import { need } from "./dom.js";
import { followChat } from "./event-stream.js";
import { Sidebar } from "./sidebar.js";
import * as texts from "./texts.js";
import { UnsentMessages } from "./unsent-messages.js";

const { demo: isDemo, supervised } = document.body.dataset;
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
const conversation = new Conversation(need("#log"), {
  resend: (message) => conversation.addUnsent(unsent.resend(message)),
  discard: (message) => unsent.discard(message),
});
const connectionStatus = new ConnectionStatus({ supervised: supervised === "yes" });
const sidebar = new Sidebar((name) => openChat(name));
const composer = new Composer({ send: sendMessage, currentChat: () => chat }, new AttachmentPicker());
const demo = isDemo ? new DemoPanel({ send: sendMessage, expectKill, showRuns: (runs) => conversation.showRuns(runs) }) : null;

function expectKill() {
  connectionStatus.expectKill();
  conversation.setAway(true);
}

const newChatName = () => crypto.getRandomValues(new BigUint64Array(1))[0].toString(36);

/**
 * Show a chat, or begin a new one if no name is given.
 *
 * @param {string | null} name
 */
function openChat(name, { push = true } = {}) {
  stopFollowing();
  conversation.clear();
  chat = name || newChatName();
  if (push) history.pushState(null, "", name ? chatPagePath(name) : "/");
  for (const message of unsent.ofChat(chat)) conversation.addUnsent(message);
  showWelcome(!name);
  document.title = texts.page.title;
  need("#stop").hidden = true;
  sidebar.setCurrent(chat);
  stopFollowing = followChat(chat, { onEvent, onConnection, onRefused });
  // On a touch screen, the focus would open the keyboard.
  if (matchMedia("(hover: hover)").matches) composer.words.focus({ preventScroll: true });
}

/**
 * Send a message to the current chat, or to the chat in which its upload began.
 *
 * @param {string} text
 * @param {Attachment[]} [files]
 */
function sendMessage(text, files = [], to = chat) {
  if (to !== chat) {
    unsent.add(to, text, files);
    return;
  }
  if (location.pathname === "/") history.replaceState(null, "", chatPagePath(chat));
  showWelcome(false);
  conversation.addUnsent(unsent.add(chat, text, files));
  if (!connectionStatus.isConnected) conversation.showWaiting();
}

/** @param {StreamEvent} event */
function onEvent(event) {
  if (event.name === "gateway") return connectionStatus.showGatewayState(event.data);
  if (event.name === "idle") return onIdle();
  conversation.applyEvent(event);
  need("#stop").hidden = !conversation.openTurn;
  if (event.name === "turn" && SIDEBAR_MOVES.has(event.data.move)) sidebar.refresh();
  if (event.name === "step" || event.name === "turn") demo?.refresh();
}

/** The stream has delivered everything so far, including what happened while the gateway was gone. */
function onIdle() {
  conversation.markLoaded();
  if (connectionStatus.isConnected) conversation.setAway(false);
}

/** @param {boolean} isConnected */
function onConnection(isConnected) {
  if (!isConnected) {
    connectionStatus.markGone();
    conversation.setAway(true);
    return;
  }
  connectionStatus.markBack();
  unsent.flush();
  sidebar.refresh();
}

/**
 * @param {Problem} error
 * @param {boolean} isPositionLost
 */
function onRefused(error, isPositionLost) {
  if (isPositionLost) openChat(chat, { push: false }); // read the whole chat again
  else conversation.applyEvent({ name: "notice", data: { text: errorText(error) } });
}

/** @param {boolean} visible */
function showWelcome(visible) {
  need("#welcome").hidden = !visible;
  demo?.show(visible);
}

need("#stop").addEventListener("click", () => sendMessage("/stop"));
addEventListener("popstate", () => openChat(chatFromPath(location.pathname), { push: false }));
openChat(chatFromPath(location.pathname), { push: false });
