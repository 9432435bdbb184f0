// Elements without markup: whatever people and models say becomes text, never HTML.

/** An element with its properties and children; strings become text. */
export function el(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && name !== "list" && !name.includes("-")) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const find = (selector, root = document) => root.querySelector(selector);

/** Milliseconds as people say them: 0.4 s, 12 s, 3 min. */
export function formatDuration(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  return seconds < 120 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

/** The time of day, and the day too if it is not today. */
export function formatTime(at) {
  const when = new Date(at);
  const time = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const today = when.toDateString() === new Date().toDateString();
  return today ? time : `${when.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/** The time of day with its seconds. */
export const formatClock = (at) => new Date(at).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });

/** One, or several: plural(2, "step") is "2 steps". */
export const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
