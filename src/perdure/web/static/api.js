// Calls the gateway. A call ends in a response, a refusal with its reason, or GatewayUnavailable.

/** @import { Problem } from "../page-types" */

import * as texts from "./texts.js";

/** Nobody answers: the gateway is gone, takes nothing now, or wants a login first. The call may be repeated. */
export class GatewayUnavailable extends Error {}

/** The gateway refuses a call and says why. */
export class HttpRefusal extends Error {
  /**
   * @param {number} status
   * @param {{ error: string, hint?: string }} body
   */
  constructor(status, { error, hint }) {
    super(error);
    this.status = status;
    this.hint = hint ?? "";
  }
}

/**
 * Whether an error is a refusal with this status.
 *
 * @param {unknown} error
 * @param {number} status
 */
export const isRefusal = (error, status) => error instanceof HttpRefusal && error.status === status;

/**
 * What went wrong and what to do, as sentences.
 *
 * @param {Problem} problem
 */
export function errorText({ message, hint }) {
  const what = /[.!?]$/.test(message) ? message : `${message}.`;
  return hint ? `${what} ${hint}` : what;
}

/**
 * What a caught value says.
 *
 * @param {unknown} error
 * @returns {Problem}
 */
export const asProblem = (error) => (error instanceof Error ? error : { message: String(error) });

/**
 * The address of a chat in the API.
 *
 * @param {string} chat
 */
export const chatPath = (chat) => `/api/chats/${encodeURIComponent(chat)}`;

const CHAT_PAGES = "/chats/";

/**
 * The address of the page of a chat.
 *
 * @param {string} chat
 */
export const chatPagePath = (chat) => CHAT_PAGES + encodeURIComponent(chat);

/**
 * The chat that the path of a page names; empty: a new chat.
 *
 * @param {string} path
 */
export function chatFromPath(path) {
  if (!path.startsWith(CHAT_PAGES)) return "";
  const name = path.slice(CHAT_PAGES.length);
  try {
    return decodeURIComponent(name);
  } catch {
    return name; // somebody typed a percent sign that encodes nothing
  }
}

/**
 * Call the gateway and return the JSON of its response. A file is sent as it is, any other body as JSON.
 *
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function callApi(method, path, body) {
  const response = await fetchOk(path, { method, ...encodeBody(body) });
  return await response.json().catch(() => {
    throw new GatewayUnavailable(texts.api.brokenResponse);
  });
}

/**
 * @param {unknown} body
 * @returns {RequestInit}
 */
function encodeBody(body) {
  if (body instanceof Blob) return { body, headers: { "Content-Type": body.type || "application/octet-stream" } };
  if (body !== undefined) return { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
  return {};
}

/**
 * Fetch a response with a good status.
 *
 * @param {string} path
 * @param {RequestInit} [options]
 */
export async function fetchOk(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    throw new GatewayUnavailable(asProblem(error).message);
  }
  if (response.ok) return response;
  if (response.status === 401) {
    goToLogin();
    throw new GatewayUnavailable(texts.api.loginNeeded);
  }
  if (response.status === 503) throw new GatewayUnavailable(texts.api.unavailable);
  const body = await response.json().catch(() => ({ error: texts.api.answered(response.status) }));
  throw new HttpRefusal(response.status, body);
}

let leaving = false;

/** Go to the login page, once: further refused calls must not restart the navigation. */
function goToLogin() {
  if (!leaving) location.assign("/login");
  leaving = true;
}
