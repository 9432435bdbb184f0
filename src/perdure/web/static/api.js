// Calls to the gateway. They end in an answer, a refusal with its reason, or Away.

/** Nobody answers: the gateway is gone, takes nothing now, or wants a login first. Nothing is lost by asking again. */
export class GatewayUnavailable extends Error {}

/** The gateway says no, and why. */
export class HttpRefusal extends Error {
  constructor(status, { error, hint }) {
    super(error);
    this.status = status;
    this.hint = hint ?? "";
  }
}

/** What went wrong and what to do, as sentences. */
export function errorText({ message, hint }) {
  const what = /[.!?]$/.test(message) ? message : `${message}.`;
  return hint ? `${what} ${hint}` : what;
}

export const chatPath = (chat) => `/api/chats/${encodeURIComponent(chat)}`;

/** The answer's JSON. A file is sent as it is, anything else as JSON. */
export async function callApi(method, path, body) {
  const options = { method };
  if (body instanceof Blob) Object.assign(options, { body, headers: { "Content-Type": body.type || "application/octet-stream" } });
  else if (body !== undefined) Object.assign(options, { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  const response = await fetchOk(path, options);
  return await response.json().catch(() => {
    throw new GatewayUnavailable("the answer broke off");
  });
}

/** A response that is good. */
export async function fetchOk(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    throw new GatewayUnavailable(error.message);
  }
  if (response.ok) return response;
  if (response.status === 401) {
    goToLogin();
    throw new GatewayUnavailable("a login is needed");
  }
  if (response.status === 503) throw new GatewayUnavailable("the gateway takes nothing now");
  const said = await response.json().catch(() => ({ error: `the gateway answered ${response.status}` }));
  throw new HttpRefusal(response.status, said);
}

let leaving = false;

/** Go to the login, once: whoever asks again meanwhile must not begin the way there anew. */
function goToLogin() {
  if (!leaving) location.assign("/login");
  leaving = true;
}
