// The types of what the gateway sends to the page scripts in static/, and of what these keep in the browser.
// The HTTP API fixes every name here (docs/http.md). No browser loads this file; `make check` reads it.

/** A time as the gateway writes it: milliseconds since 1970. */
export type Timestamp = number;

export interface Attachment {
  id: string;
  name: string;
  media_type?: string;
  size?: number | null;
  state?: string;
}

/** A message of the chat, from a person, the agent or the gateway. */
export interface ChatMessage {
  id: string;
  author: string;
  text: string;
  at: Timestamp;
  turn?: string | null;
  attachments?: Attachment[];
  asks?: string | null;
}

/** A message that the gateway has not acknowledged yet, as localStorage keeps it. */
export interface UnsentMessage {
  id: string;
  chat: string;
  text: string;
  files: Attachment[];
  at: Timestamp;
  refused?: string;
}

/** What the gateway answers to a message that it has stored. */
export interface StoredMessage {
  message: string;
}

interface InTurn {
  turn: string;
  at: Timestamp;
}

/** The moves of a turn that change what the page shows of it, by name, with the fields of each. */
export interface TurnMoves {
  claimed: {};
  interrupted: { reason: string };
  requeued: {};
  asked: {};
  answered: { question: string; answer: string; by: string };
  finished: { reply: boolean };
  failed: { error: string };
  cancelled: { why: string };
  undone: {};
}

export type TurnMove = { [Move in keyof TurnMoves]: { move: Move } & InTurn & TurnMoves[Move] }[keyof TurnMoves];

export interface Plan extends InTurn {
  text: string;
  calls: { call: string; tool: string; about: string }[];
}

export interface StepStarted extends InTurn {
  call: string;
  state: "started";
  tool: string;
  effect: string;
}

export interface StepEnded extends InTurn {
  call: string;
  state: "ended";
  outcome: string;
  text: string;
}

export interface Trouble extends InTurn {
  text: string;
  next_at: Timestamp | null;
}

export interface Question extends InTurn {
  id: string;
  text: string;
  options: string[];
}

export interface Approval extends InTurn {
  id: string;
  call: string;
  text: string;
  until: Timestamp | null;
}

export interface Preview {
  turn: string;
  text: string;
}

export interface Decision extends InTurn {
  decision: string;
  rule: string;
  text: string;
}

/** The events that belong to a turn, by name. */
export interface TurnEvents {
  plan: Plan;
  step: StepStarted | StepEnded;
  trouble: Trouble;
  question: Question;
  approval: Approval;
  preview: Preview;
  decision: Decision;
}

/** The events that belong to a chat, by name. */
export interface ChatEvents extends TurnEvents {
  gateway: { phase: string; resume_paused: boolean };
  message: ChatMessage;
  notice: { text: string };
  turn: TurnMove;
}

type Named<Events> = { [Name in keyof Events]: { name: Name; data: Events[Name] } }[keyof Events];

export type TurnEvent = Named<TurnEvents>;
export type ChatEvent = Named<ChatEvents>;

/** What the stream of a chat emits: its events, and "idle" when there is nothing new. */
export type StreamEvent = ChatEvent | { name: "idle" };

/** A refusal in words: what went wrong, and what to do about it. */
export interface Problem {
  message: string;
  hint?: string;
}

/** A chat in the list of conversations. */
export interface ListedChat {
  chat: string;
  title: string;
  updated_at: Timestamp;
  waits_for: string | null;
}

/** How often each step really ran, by turn and call. */
export type Runs = Record<string, number>;

/** What the gateway answers to an action of the console. */
export interface ActionAnswer {
  said?: string;
  verdict?: string;
  done?: unknown;
  asked?: unknown;
  answered?: unknown;
}

/** What an action asks before it is posted. */
export interface Confirmation {
  question?: string;
  means?: string;
  about?: string;
  label?: string;
  danger?: boolean;
}

/** A process with the part of its output behind the offset that was asked for. */
export interface ProcessOutput {
  state: string;
  output: string;
  next: number;
  size: number;
  exit_code: number | null;
  signal: number | null;
}

/** A child of an element; text is never read as HTML. */
export type Child = Node | string | null | undefined | false;

/** A piece of parsed Markdown: an element to be made, or text. */
export type MarkdownNode = string | MarkdownElement;

export interface MarkdownElement {
  tag: keyof HTMLElementTagNameMap;
  properties: Record<string, string | number>;
  children: MarkdownNode[];
}
