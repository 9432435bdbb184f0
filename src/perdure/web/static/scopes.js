// What the login of this browser may do, as the page says it.

const scopes = new Set((document.body.dataset.scopes ?? "").split(","));

/** @param {"read" | "chat" | "operate" | "approve"} scope */
export const may = (scope) => scopes.has(scope);
