// Every sentence that the page scripts show, by the part of the page that shows it. The theme button's stands in
// theme.js, which is loaded before any module.

import { formatClock, formatDuration, formatTime, plural } from "./format.js";

/** @import { ActionAnswer, Timestamp } from "../page-types" */

/** @typedef {Record<string, string>} Texts texts by a value of the HTTP API */

/**
 * The text for a key; undefined for a key that is not in the table, also for one that every object has.
 *
 * @param {Record<string, string>} table
 * @param {string} key
 * @returns {string | undefined}
 */
export function lookUp(table, key) {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

export const page = {
  title: "Perdure",
  titleOf: (/** @type {string} */ chat) => `${chat} · Perdure`,
};

export const api = {
  brokenResponse: "the answer broke off",
  loginNeeded: "a login is needed",
  unavailable: "the gateway takes nothing now",
  answered: (/** @type {number} */ status) => `the gateway answered ${status}`,
};

export const connection = {
  connected: "Connected",
  stopping: "Stopping",
  gone: "Gone",
  killedBanner: "The gateway is dead (SIGKILL).",
  goneBanner: "The gateway is gone.",
  supervised: "Its supervisor starts it again.",
  unsupervised: "Start it again with “perdure run”.",
  kept: "What you write is kept.",
  back: (/** @type {number} */ milliseconds) => `The gateway is back after ${formatDuration(milliseconds)}.`,
};

export const conversation = {
  you: "You",
  gateway: "Gateway",
  sending: "Sending…",
  waiting: "Kept here; sent as soon as the gateway is back.",
  resend: "Send again",
  discard: "Discard",
  refused: (/** @type {string} */ problem) => `Not sent: ${problem} `,
};

export const attachments = {
  /** @type {Texts} */
  states: { referenced: "on its way", failed: "could not be fetched" },
  uploading: "…",
  remove: (/** @type {string} */ name) => `Remove ${name}`,
  removeSign: "✕",
  failed: (/** @type {string} */ problem) => `not sent: ${problem}. Remove it, and try again.`,
};

export const question = {
  label: "The agent asks",
  until: (/** @type {Timestamp} */ at) => `You can decide until ${formatTime(at)}.`,
  choose: "Or write an answer of your own.",
  write: "Write your answer below.",
  sending: "Sending…",
  unavailable: "The gateway is away. Press again when it is back.",
  approve: "Approve",
  deny: "Deny",
  /** @type {Texts} */
  verdicts: { approved: "Approved", denied: "Denied", late: "Too late: it was not run" },
  decided: (/** @type {string} */ verdict, /** @type {string} */ by) => `${verdict}, by ${by}`,
  notYours: "This login may not decide it. One with the scope “approve” may: “perdure token add NAME --scopes read,approve” makes it.",
  answered: (/** @type {string} */ answer) => `Answered: ${answer}`,
  expired: "Nobody waits for this answer any more.",
};

export const turn = {
  author: "Agent",
  steps: "Steps",
  working: "Working",
  workingAgain: "Working again",
  interrupted: "Interrupted",
  requeued: "Resuming",
  asked: "Waits for you",
  answered: "Goes on",
  finished: "",
  failed: "Failed",
  undone: "Taken back",
  away: "Waits for the gateway",
  resumed: "Resumed. What was finished is kept.",
  interruption: "Interrupted.",
  /** @type {Texts} by reason */
  interruptions: {
    restart_interrupted: "Interrupted: the gateway died in the middle of this.",
    restart_timeout: "Interrupted by a restart of the gateway.",
    shutdown_timeout: "Interrupted: the gateway was stopped.",
    lease_lost: "Interrupted: another gateway took over.",
  },
  cancelled: "Stopped",
  /** @type {Texts} by what cancelled the turn */
  cancellations: {
    suspended: "Suspended",
    superseded: "Left behind",
    replaced: "Left behind",
    reset: "Left behind",
    dropped: "Given up",
    cleared: "",
  },
  troublePrefix: "Trouble with the model",
  trouble: (/** @type {Timestamp} */ next) => `${turn.troublePrefix}: next try at ${formatClock(next)}`,

  /**
   * What stands above the list of steps.
   *
   * @param {{ steps: number, interruptions: number, failures: number }} counts
   * @param {number} [milliseconds] how long the turn took, once it has ended
   */
  summary({ steps, interruptions, failures }, milliseconds) {
    const parts = [plural(steps, "step")];
    if (interruptions) parts.push(plural(interruptions, "interruption"));
    if (failures) parts.push(plural(failures, "failed call"));
    return parts.join(", ") + (milliseconds === undefined ? "" : ` · ${formatDuration(milliseconds)}`);
  },
};

export const step = {
  /** @type {Texts} */
  states: {
    wanted: "waiting",
    running: "running",
    ok: "done",
    error: "error",
    unknown: "outcome unknown",
    cancelled: "cancelled",
    cut: "interrupted",
  },
  goesOn: "goes on without the gateway",
  wentOn: "went on without the gateway",
  runsAgain: "runs again",
  whyAgain: "It was interrupted before it had ended, and may be repeated, so it was begun again.",

  /**
   * How often a step ran.
   *
   * @param {string | undefined} state
   * @param {number} times
   */
  runs(state, times) {
    if (state === "cut") return times === 1 ? "begun once" : `begun ${times} times`;
    if (state === "running") return times === 1 ? "" : `run ${times}`;
    return times === 1 ? "ran once" : `ran ${times} times`;
  },
};

export const sidebar = {
  interrupted: "interrupted",
  queued: "queued",
  working: "working",
  asked: "waits for you",
};

export const consolePage = {
  done: "Done.",
  nothing: "There was nothing to do.",
  asked: "Asked for. It is on record; what runs is not known to have ended yet.",
  late: "It was too late: the call did not run.",
  verdict: (/** @type {string} */ verdict) => `The call is ${verdict}.`,
  unavailable: "The gateway does not answer now. Once it is back, this page shows whether that was done.",
  stale: (/** @type {Timestamp} */ at) => `The gateway does not answer. What you see is from ${formatTime(at)}.`,
  pairing: (/** @type {string} */ code, /** @type {string} */ role) => `${code} as ${role}`,

  /**
   * What the gateway says of an action, in one sentence.
   *
   * @param {ActionAnswer} answer
   */
  outcome(answer) {
    if (answer.said) return answer.said;
    if (answer.verdict === "late") return consolePage.late;
    if (answer.verdict) return consolePage.verdict(answer.verdict);
    if (answer.asked) return consolePage.asked;
    return answer.done || answer.answered ? consolePage.done : consolePage.nothing;
  },
};

export const processPage = {
  /**
   * How a process ended.
   *
   * @param {number | null} code
   * @param {number | null} signal
   */
  exit(code, signal) {
    if (code !== null) return `code ${code}`;
    return signal !== null ? `signal ${signal}` : "";
  },
};
