"""The timeline of a turn: spans of attempts, model calls, tool calls, questions and interruptions.

Everything is read from the journal, except for the end of a gateway that died: a crash writes nothing. The
supervisor may have seen the death; otherwise the last heartbeat says until when the gateway was alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.entries import (
    JournalRecord,
    ModelAnswered,
    ModelAsked,
    ModelFailed,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    TokenUsage,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnCancelled,
    TurnClaimed,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
)

MAX_TEXT_CHARACTERS = 2_000  # of each text; the export has the whole text

SpanKind = Literal["model", "tool", "person"]


class AttemptSpan(Struct):
    """One attempt: from its claim to its end, or to the death or last sign of life of its run."""

    number: int
    run: str
    at: int
    until: int | None = None  # None: still running
    ending: str | None = None  # the entry that ended it
    reason: str | None = None  # of an interruption


class Span(Struct):
    """A model call, a tool call, or a question that waits for a person."""

    kind: SpanKind
    name: str
    id: str
    attempt: int
    at: int
    until: int | None = None
    outcome: str | None = None  # None: still open; `cut`: interrupted, and made again if necessary
    effect: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    usage: TokenUsage = TokenUsage()
    by: str = ""  # of a question or an approval: who answered, where, and by what


class RunEnd(Struct, frozen=True):
    """When a run was last known to be alive."""

    at: int
    exit_code: int | None = None  # of its process, if the supervisor saw it die; below zero, the signal


class InterruptionSpan(Struct):
    """An interruption: from the death of the gateway, or its last sign of life, until it was found or marked."""

    at: int
    found_at: int
    reason: str
    attempt: int
    exit_code: int | None = None  # None: no supervisor saw the process die


class DecisionPoint(Struct):
    """A decision about the newest interruption."""

    at: int
    seq: int
    decided: RecoveryDecided


class TurnTimeline(Struct):
    """The timeline of a turn; every list is in order of time."""

    attempts: list[AttemptSpan] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    interruptions: list[InterruptionSpan] = field(default_factory=list)
    decisions: list[DecisionPoint] = field(default_factory=list)
    ended_at: int | None = None
    _requested_calls: dict[str, ToolCall] = field(default_factory=dict)
    _last_at: int = 0

    def apply(self, record: JournalRecord, run_ends: Mapping[str, RunEnd]) -> None:
        """Apply one more record."""
        entry, at = record.entry, record.at
        match entry:
            case TurnClaimed():
                self.attempts.append(AttemptSpan(entry.attempt, entry.run, at))
            case ModelAsked():
                self._begin_span(Span("model", entry.model, f"step {entry.step}", self._attempt_number, at))
            case ModelFailed():
                problem = texts.agents.failed_request(entry.number, entry.status, entry.said, entry.wait)
                self._end_span(f"step {entry.step}", at, "error", problem)
            case ModelAnswered():
                self._requested_calls |= {call.id: call for call in entry.calls}
                self._end_span(f"step {entry.step}", at, "ok", entry.text, entry.usage)
            case ToolStarted():
                requested = self._requested_calls.get(entry.call)
                arguments = entry.arguments or (requested.arguments if requested else {})
                self._begin_span(
                    Span(
                        "tool",
                        entry.tool,
                        entry.call,
                        self._attempt_number,
                        at,
                        None,
                        None,
                        entry.effect,
                        arguments,
                    )
                )
            case ToolEnded():
                self._end_span(entry.call, at, entry.outcome, entry.text)
            case QuestionAsked() if self._open_span(f"question {entry.question}") is None:
                name = "approval" if entry.approves else "question"
                asked = Span("person", name, f"question {entry.question}", self._attempt_number, at)
                asked.arguments = {"question": texts.phrases.clip(entry.text, MAX_TEXT_CHARACTERS)}
                self.spans.append(asked)
            case QuestionAnswered():
                asked_span = self._open_span(f"question {entry.question}")
                self._end_span(f"question {entry.question}", at, "ok", entry.text)
                if asked_span is not None:
                    asked_span.by = texts.questions.answered_by(entry)
            case TurnInterrupted():
                self._add_interruption(entry, at, run_ends)
            case RecoveryDecided():
                self.decisions.append(DecisionPoint(at, record.seq, entry))
        if isinstance(entry, TurnFinished | TurnFailed | TurnCancelled | QuestionAsked):
            self._close_attempt(entry.kind, at)
        if isinstance(entry, TurnFinished | TurnFailed | TurnCancelled):
            self.ended_at = at
        self._last_at = at

    @property
    def _attempt_number(self) -> int:
        return self.attempts[-1].number if self.attempts else 0

    def _open_span(self, name: str) -> Span | None:
        return next((span for span in reversed(self.spans) if span.id == name and span.outcome is None), None)

    def _begin_span(self, span: Span) -> None:
        """Begin a span. The same call again means that the earlier try was interrupted, unless it is attached."""
        before = self._open_span(span.id)
        if before is not None and before.effect == Effect.ATTACHED:
            return
        if before is not None:
            before.until, before.outcome = self._died_after(before.at) or span.at, "cut"
        self.spans.append(span)

    def _end_span(self, name: str, at: int, outcome: str, text: str, usage: TokenUsage | None = None) -> None:
        span = self._open_span(name)
        if span is None:  # it never began: it was not approved, or was cancelled before
            requested = self._requested_calls.get(name)
            span = Span("tool", requested.tool if requested else name, name, self._attempt_number, at)
            span.arguments = requested.arguments if requested else {}
            self.spans.append(span)
        died = self._died_after(span.at) if outcome in ("unknown", "cancelled") else None
        span.until, span.outcome = died or at, outcome
        span.text, span.usage = texts.phrases.clip(text, MAX_TEXT_CHARACTERS), usage or TokenUsage()

    def _died_after(self, at: int) -> int | None:
        """When the gateway died, or was last seen, before the first interruption after a time."""
        return next((max(cut.at, at) for cut in self.interruptions if cut.found_at >= at), None)

    def _add_interruption(self, entry: TurnInterrupted, at: int, run_ends: Mapping[str, RunEnd]) -> None:
        """Add an interruption. A planned stop begins when it is marked; a death, at the last sign of life."""
        run = entry.run or (self.attempts[-1].run if self.attempts else "")
        end = RunEnd(at) if is_planned_stop(entry.reason) else run_ends.get(run, RunEnd(0))
        seen = min(at, max(self._last_at, end.at))
        self.interruptions.append(InterruptionSpan(seen, at, entry.reason, self._attempt_number, end.exit_code))
        self._close_attempt(entry.kind, seen, entry.reason)

    def _close_attempt(self, ending: str, at: int, reason: str | None = None) -> None:
        if self.attempts and self.attempts[-1].ending is None:
            last = self.attempts[-1]
            last.until, last.ending, last.reason = at, ending, reason


def is_planned_stop(reason: str) -> bool:
    """Whether the gateway itself interrupted the turn, because it was stopping."""
    return reason.endswith("_timeout")


def build_timeline(records: Iterable[JournalRecord], run_ends: Mapping[str, RunEnd]) -> TurnTimeline:
    """Build a turn's timeline from its records; `run_ends` says until when each run was alive."""
    line = TurnTimeline()
    for record in records:
        line.apply(record, run_ends)
    for span in line.spans:
        if span.outcome is None and (line.ended_at is not None or _is_interrupted(line, span)):
            span.until, span.outcome = line._died_after(span.at) or line.ended_at, "cut"  # noqa: SLF001 reason: ours
    return line


def _is_interrupted(timeline: TurnTimeline, span: Span) -> bool:
    """Whether an open span was interrupted: its run died, and the call does not outlive its run."""
    return (
        span.kind != "person"
        and span.effect != Effect.ATTACHED
        and any(cut.found_at >= span.at for cut in timeline.interruptions)
    )
