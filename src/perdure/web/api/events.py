"""The events of a chat as a server-sent event stream that a reader can resume at any event id.

The stream has no state of its own: an event's id names a position in the chat and one in the journal, and the
store has everything behind them. So a reader misses nothing while it, or the gateway, was away.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAnswered,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnUndone,
)
from perdure.core.messages import question_id
from perdure.errors import Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway, Phase
from perdure.store.inbox import ChatMessage

KEEP_ALIVE_SECONDS = 15.0
MAX_SUMMARY_CHARACTERS = 300
STORE_RETRY_SECONDS = 1.0  # between reads while the store is unavailable
# Many clients take these characters for the end of a line.
_LINE_BREAK_ESCAPES = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}


class EventCursor(Struct, frozen=True):
    """How far a reader has come: a position in the chat, and one in the journal of a session."""

    position: int = 0
    session: str = ""
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.position}.{self.session}.{self.seq}"


async def stream_events(
    gateway: Gateway, web: WebAdapter, key: str, cursor: EventCursor, is_logged_in: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    """Every event behind the cursor, then each new event, until the gateway has stopped or the login has ended."""
    address = split_session_key(key)[1]
    with gateway.feed.subscribe(key) as wakeup, web.subscribe(address, wakeup.wake) as live:
        sent = None
        while gateway.phase is not Phase.STOPPED and await _still_counts(is_logged_in):
            phase, paused = gateway.phase, gateway.loops.recoverer.paused
            if sent != (phase, paused):
                sent = phase, paused
                yield _encode_event("gateway", {"phase": phase, "resume_paused": paused})
            while live.notices:
                yield _encode_event("notice", {"text": live.notices.popleft()})
            while live.previews:
                turn, text = live.previews.popitem()
                yield _encode_event("preview", {"turn": turn, "text": text})
            try:
                batch = await _read_events(gateway, key, cursor)
            except Unavailable:
                # The store is back later, or the gateway is stopping: waiting misses nothing.
                await wakeup.wait(STORE_RETRY_SECONDS)
                continue
            for cursor, name, data in batch:
                yield _encode_event(name, data, cursor)
            if not batch:
                yield ": still here\n\n"
                await wakeup.wait(KEEP_ALIVE_SECONDS)


async def _still_counts(is_logged_in: Callable[[], Awaitable[bool]]) -> bool:
    """Whether the reader's login still counts; while the store is away, nobody can say that it does not."""
    try:
        return await is_logged_in()
    except Unavailable:
        return True


def _encode_event(name: str, data: Any, cursor: EventCursor | None = None) -> str:
    event_id = f"id: {cursor}\n" if cursor is not None else ""
    return (
        f"{event_id}event: {name}\ndata: {msgspec.json.encode(data).decode().translate(_LINE_BREAK_ESCAPES)}\n\n"
    )


ChatStreamEvent = tuple[EventCursor, str, dict[str, Any]]


async def _read_events(gateway: Gateway, key: str, cursor: EventCursor) -> list[ChatStreamEvent]:
    """The events behind the cursor up to now, in the order in which they happened."""
    store = gateway.store
    messages = await store.inbox.chat_messages(key, cursor.position)
    session = cursor.session
    records = await store.journal.read_after(session, cursor.seq) if session else []
    if not records:
        current = await store.sessions.current(key)
        if current is not None and current.id != session:
            session, cursor = current.id, EventCursor(cursor.position, current.id, 0)
            records = await store.journal.read_after(session, 0)
    return _merge_events(cursor, messages, records)


def _merge_events(
    cursor: EventCursor, messages: list[ChatMessage], records: list[tuple[str, JournalRecord]]
) -> list[ChatStreamEvent]:
    events: list[ChatStreamEvent] = []
    recorded: list[tuple[tuple[int, int], ChatMessage | tuple[str, JournalRecord]]] = [
        ((found[1].at, 1), found) for found in records
    ]
    written: list[tuple[tuple[int, int], ChatMessage | tuple[str, JournalRecord]]] = [
        ((message.at, 0 if message.author == "user" else 2), message) for message in messages
    ]
    # Merged, not sorted: a clock may go back, but no cursor may. In the same millisecond a person's message comes
    # before the turn that it begins, and a turn ends before its reply is visible.
    for _, fact in heapq.merge(recorded, written, key=lambda pair: pair[0]):
        if isinstance(fact, ChatMessage):
            cursor = EventCursor(fact.position, cursor.session, cursor.seq)
            events.append((cursor, "message", msgspec.to_builtins(fact)))
        else:
            turn, record = fact
            cursor = EventCursor(cursor.position, cursor.session, record.seq)
            events += [(cursor, name, data | {"at": record.at}) for name, data in _journal_events(turn, record)]
    return events


def _journal_events(turn: str, record: JournalRecord) -> list[tuple[str, dict[str, Any]]]:
    entry = record.entry
    match entry:
        case ModelFailed():
            return [("trouble", {"turn": turn} | _model_failure_fields(record.at, entry))]
        case ModelAnswered() if entry.calls:
            calls = [{"call": call.id, "tool": call.tool, "about": _call_summary(call)} for call in entry.calls]
            return [("plan", {"turn": turn, "text": entry.text, "calls": calls})]
        case ToolStarted():
            tool = {"tool": entry.tool, "effect": entry.effect}
            return [("step", {"turn": turn, "call": entry.call, "state": "started"} | tool)]
        case ToolEnded():
            outcome = {"outcome": entry.outcome, "text": entry.text}
            return [("step", {"turn": turn, "call": entry.call, "state": "ended"} | outcome)]
        case QuestionAsked():
            return [("turn", {"turn": turn, "move": entry.move}), _question_event(turn, entry)]
        case Entry(move=move) if move is not None:
            return [("turn", {"turn": turn, "move": move} | _turn_event_fields(turn, entry))]
        case TurnUndone():
            return [("turn", {"turn": turn, "move": entry.kind})]
        case RecoveryDecided():
            decision = {"decision": entry.decision, "rule": entry.rule}
            text = texts.recovery.decision(entry.decision, entry.why)
            return [("decision", {"turn": turn} | decision | {"text": text})]
        case _:
            return []


def _model_failure_fields(at: int, failed: ModelFailed) -> dict[str, Any]:
    """A failed request to the model: which one, what the provider said, and when the next one is sent."""
    return {
        "step": failed.step,
        "model": failed.model,
        "number": failed.number,
        "status": failed.status,
        "said": failed.said,
        "next_at": None if failed.wait is None else at + failed.wait,
        "text": texts.agents.failed_request(failed.number, failed.status, failed.said, failed.wait),
    }


def _call_summary(call: ToolCall) -> str:
    """The texts among the arguments of a call, on one line."""
    words = [value for value in call.arguments.values() if isinstance(value, str)]
    return texts.phrases.first_words(" ".join(words), MAX_SUMMARY_CHARACTERS)


def _question_event(turn: str, asked: QuestionAsked) -> tuple[str, dict[str, Any]]:
    """The event of a question that waits for words, or of a call that waits for approval."""
    if asked.approves:
        return "approval", {
            "id": question_id(turn, asked.approves),
            "turn": turn,
            "call": asked.approves,
            "text": asked.text,
            "until": asked.until,
        }
    name = question_id(turn, asked.question)
    return "question", {"id": name, "turn": turn, "text": asked.text, "options": asked.options}


def _turn_event_fields(turn: str, entry: Entry) -> dict[str, Any]:
    match entry:
        case TurnInterrupted():
            return {"reason": entry.reason}
        case TurnFinished():
            return {"reply": bool(entry.text.strip())}
        case TurnFailed():
            return {"error": entry.error}
        case TurnCancelled():
            return {"why": entry.why}
        case QuestionAnswered():
            by = texts.questions.answered_by(entry)
            return {"question": question_id(turn, entry.question), "answer": entry.text, "by": by}
        case _:
            return {}
