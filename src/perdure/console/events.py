"""What happens in a chat, as server-sent events that can be taken up again at any id.

Nothing is kept for the stream itself: an event's id names a place in the chat and a place in the journal, and
what comes behind them is read from there. So a reader who was away, or whose gateway was, misses nothing.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from perdure.console.answers import Refusal
from perdure.core import notes
from perdure.core.address import parse_session_key
from perdure.core.journal import (
    Answered,
    Asked,
    Cancelled,
    Decided,
    Entry,
    Failed,
    Finished,
    Interrupted,
    ModelAnswered,
    ModelFailed,
    Record,
    ToolCall,
    ToolEnded,
    ToolStarted,
    Undone,
)
from perdure.errors import Unavailable
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway, Phase
from perdure.store.inbox import Seen

KEEP_ALIVE = 15.0
MOST_ABOUT = 300  # letters
STORE_PAUSE = 1.0  # seconds between tries while the store gives no answer
_BREAKS = {code: f"\\u{code:04x}" for code in (0x85, 0x2028, 0x2029)}  # many readers take them for line ends
_CURSOR = re.compile(r"([0-9]{1,18})\.((?:s_[0-9a-z]+)?)\.([0-9]{1,18})")


class Cursor(Struct, frozen=True):
    """How far a reader has come: a place in the chat, and one in the journal of a session."""

    position: int = 0
    session: str = ""
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.position}.{self.session}.{self.seq}"


def read_cursor(text: str) -> Cursor:
    """Read an event id back; none at all means the beginning."""
    if not text:
        return Cursor()
    found = _CURSOR.fullmatch(text)
    if found is None:
        hint = "Send the id of an event, or none at all."
        raise Refusal(400, f"Last-Event-ID {text[:60]!r} is none of ours", hint)
    return Cursor(int(found[1]), found[2], int(found[3]))


async def follow(gateway: Gateway, web: WebAdapter, key: str, cursor: Cursor) -> AsyncIterator[str]:
    """Everything behind the cursor, then everything that happens, until the gateway has stopped."""
    address = parse_session_key(key)[1]
    with gateway.feed.watch(key) as bell, web.reading(address, bell.ring) as now:
        told = None
        while gateway.phase is not Phase.STOPPED:
            phase, paused = gateway.phase, gateway.loops.recoverer.paused
            if told != (phase, paused):
                told = phase, paused
                yield _spell("gateway", {"phase": phase, "resume_paused": paused})
            while now.notices:
                yield _spell("notice", {"text": now.notices.popleft()})
            while now.growing:
                turn, text = now.growing.popitem()
                yield _spell("preview", {"turn": turn, "text": text})
            try:
                batch = await _news(gateway, key, cursor)
            except Unavailable:
                # The store answers again later, or we are stopping: nothing is missed by waiting.
                await bell.wait(STORE_PAUSE)
                continue
            for cursor, name, data in batch:
                yield _spell(name, data, cursor)
            if not batch:
                yield ": still here\n\n"
                await bell.wait(KEEP_ALIVE)


def _spell(name: str, data: Any, cursor: Cursor | None = None) -> str:
    place = f"id: {cursor}\n" if cursor is not None else ""
    return f"{place}event: {name}\ndata: {msgspec.json.encode(data).decode().translate(_BREAKS)}\n\n"


News = tuple[Cursor, str, dict[str, Any]]


async def _news(gateway: Gateway, key: str, cursor: Cursor) -> list[News]:
    """What is behind the cursor now, told in the order in which it happened."""
    store = gateway.store
    messages = await store.inbox.seen(key, cursor.position)
    session = cursor.session
    records = await store.journal.after(session, cursor.seq) if session else []
    if not records:
        current = await store.sessions.current(key)
        if current is not None and current.id != session:
            session, cursor = current.id, Cursor(cursor.position, current.id, 0)
            records = await store.journal.after(session, 0)
    return _told(cursor, messages, records)


def _told(cursor: Cursor, messages: list[Seen], records: list[tuple[str, Record]]) -> list[News]:
    news: list[News] = []
    told: list[tuple[int, Seen | tuple[str, Record]]] = [(found[1].at, found) for found in records]
    seen: list[tuple[int, Seen | tuple[str, Record]]] = [(message.at, message) for message in messages]
    # Merged, not sorted: clocks may go back, but no cursor may. In the same millisecond the journal comes
    # first, because a turn ends before its reply is seen.
    for _, fact in heapq.merge(told, seen, key=lambda pair: pair[0]):
        if isinstance(fact, Seen):
            cursor = Cursor(fact.position, cursor.session, cursor.seq)
            news.append((cursor, "message", msgspec.to_builtins(fact)))
        else:
            turn, record = fact
            cursor = Cursor(cursor.position, cursor.session, record.seq)
            news += [(cursor, name, data | {"at": record.at}) for name, data in _event(turn, record)]
    return news


def _event(turn: str, record: Record) -> list[tuple[str, dict[str, Any]]]:
    entry = record.entry
    match entry:
        case ModelFailed():
            return [("trouble", {"turn": turn} | _trouble(record.at, entry))]
        case ModelAnswered() if entry.calls:
            calls = [{"call": call.id, "tool": call.tool, "about": _about(call)} for call in entry.calls]
            return [("plan", {"turn": turn, "text": entry.text, "calls": calls})]
        case ToolStarted():
            tool = {"tool": entry.tool, "effect": entry.effect}
            return [("step", {"turn": turn, "call": entry.call, "state": "started"} | tool)]
        case ToolEnded():
            outcome = {"outcome": entry.outcome, "text": entry.text}
            return [("step", {"turn": turn, "call": entry.call, "state": "ended"} | outcome)]
        case Asked():
            return [("turn", {"turn": turn, "move": entry.move}), _question(turn, entry)]
        case Entry(move=move) if move is not None:
            return [("turn", {"turn": turn, "move": move} | _details(turn, entry))]
        case Undone():
            return [("turn", {"turn": turn, "move": entry.kind})]
        case Decided():
            decision = {"decision": entry.decision, "rule": entry.rule}
            text = notes.decided_for_people(entry.decision, entry.why)
            return [("decision", {"turn": turn} | decision | {"text": text})]
        case _:
            return []


def _trouble(at: int, failed: ModelFailed) -> dict[str, Any]:
    """A failed try of a model call: which one, what the provider said, and when the next one comes."""
    return {
        "step": failed.step,
        "model": failed.model,
        "number": failed.number,
        "status": failed.status,
        "said": failed.said,
        "next_at": None if failed.wait is None else at + failed.wait,
        "text": notes.failed_try(failed.number, failed.status, failed.said, failed.wait),
    }


def _about(call: ToolCall) -> str:
    """What a call is about, on one line: the words among its arguments."""
    words = [value for value in call.arguments.values() if isinstance(value, str)]
    return notes.beginning(" ".join(words), MOST_ABOUT)


def _question(turn: str, asked: Asked) -> tuple[str, dict[str, Any]]:
    """What a person is asked: to say something, or whether a call may run."""
    if asked.approves:
        name = f"{turn}.{asked.approves}"
        return "approval", {
            "id": name,
            "turn": turn,
            "call": asked.approves,
            "text": asked.text,
            "until": asked.until,
        }
    name = f"{turn}.{asked.question}"
    return "question", {"id": name, "turn": turn, "text": asked.text, "options": asked.options}


def _details(turn: str, entry: Entry) -> dict[str, Any]:
    match entry:
        case Interrupted():
            return {"reason": entry.reason}
        case Finished():
            return {"reply": bool(entry.text.strip())}
        case Failed():
            return {"error": entry.error}
        case Cancelled():
            return {"why": entry.why}
        case Answered():
            return {"question": f"{turn}.{entry.question}", "answer": entry.text}
        case _:
            return {}
