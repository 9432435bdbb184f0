// Calls to the gateway. They end in an answer, a refusal with its reason, or Away.

/** Nobody answers: the gateway is gone, or does not take anything now. Nothing is lost by asking again. */
export class Away extends Error {}

/** The gateway says no, and why. */
export class Refused extends Error {
  constructor(status, { error, hint }) {
    super(error);
    this.status = status;
    this.hint = hint ?? "";
  }
}

export const chatPath = (chat) => `/api/chats/${encodeURIComponent(chat)}`;

/** The answer's JSON. */
export async function call(method, path, body) {
  const response = await reach(path, {
    method,
    headers: body === undefined ? {} : { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  return await response.json().catch(() => {
    throw new Away("the answer broke off");
  });
}

/** A response that is good. */
export async function reach(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    throw new Away(error.message);
  }
  if (response.ok) return response;
  if (response.status === 401) location.assign("/login");
  if (response.status === 503) throw new Away("the gateway takes nothing now");
  const said = await response.json().catch(() => ({ error: `the gateway answered ${response.status}` }));
  throw new Refused(response.status, said);
}
