"""Short constructors of journal entries, for tests of the core."""

from __future__ import annotations

from collections.abc import Iterable

from perdure.core.effects import Effect
from perdure.core.journal import (
    Cause,
    Entry,
    JournalRecord,
    MessagesJoined,
    ModelAnswered,
    TokenUsage,
    ToolCall,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
    TurnBegan,
    TurnClaimed,
    TurnInterrupted,
    TurnRequeued,
    TurnView,
    fold,
)
from perdure.core.messages import Attachment, Sender
from perdure.core.recovery.decision import InterruptionReason

ADA = Sender("ada", "Ada")
TICK_MS = 1_000  # milliseconds between one record and the next


def cause(text: str = "hello", *, message: str = "m1", files: Iterable[str] = ()) -> Cause:
    """Return a message of Ada as a turn records it."""
    attachments = tuple(Attachment(name, f"file:{name}") for name in files)
    return Cause(f"in_{message}", text, ADA, message, attachments=attachments)


def began(*texts: str) -> TurnBegan:
    """Return the entry of a turn that begins with these messages."""
    return TurnBegan(tuple(cause(text, message=f"m{n}") for n, text in enumerate(texts or ("hello",), 1)))


def joined(text: str) -> MessagesJoined:
    return MessagesJoined((cause(text, message="m9"),))


def claimed(attempt: int = 1, run: str = "r1") -> TurnClaimed:
    return TurnClaimed(run, attempt, attempt)


def answer_with_calls(
    *calls: str, step: int = 1, tool: str = "look", finish: str | None = "tool_calls"
) -> ModelAnswered:
    """Return a model's answer with these tool calls; each has its id as an argument."""
    wishes = tuple(ToolCall(call, tool, {"at": call}) for call in calls)
    return ModelAnswered(step, "", wishes, finish, TokenUsage(10, 5))


def answer_with_text(text: str = "All done.", *, step: int = 1, finish: str | None = "stop") -> ModelAnswered:
    """Return a model's answer with text and without tool calls."""
    return ModelAnswered(step, text, (), finish, TokenUsage(10, 5))


def started(call: str, effect: Effect = Effect.PURE, *, tool: str = "look", key: str | None = None) -> ToolStarted:
    return ToolStarted(call, tool, effect, key or f"t1:{call}")


def ended(call: str, outcome: ToolOutcome = "ok", text: str | None = None) -> ToolEnded:
    return ToolEnded(call, outcome, f"{call}: seen" if text is None else text)


def interruption(reason: str = InterruptionReason.RESTART_INTERRUPTED, run: str | None = "r1") -> TurnInterrupted:
    return TurnInterrupted(reason, run)


def requeue_and_claim(attempt: int = 2, run: str = "r2") -> tuple[Entry, ...]:
    """Return the entries that requeue an interrupted turn and claim it again."""
    return TurnRequeued(), claimed(attempt, run)


def journal_records(*entries: Entry, first: int = 1) -> list[JournalRecord]:
    """Return the entries as records, numbered, one tick apart."""
    return [JournalRecord(seq, seq * TICK_MS, entry) for seq, entry in enumerate(entries, first)]


def turn_view_of(*entries: Entry, first: int = 1) -> TurnView:
    """Return the fold of these entries."""
    return fold(journal_records(*entries, first=first))
