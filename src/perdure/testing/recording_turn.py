"""A turn in memory for tests of agents, which can crash at every append to its journal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from perdure.agents.api import Reply
from perdure.core.journal import (
    Cause,
    Entry,
    JournalRecord,
    MessagesJoined,
    QuestionAnswered,
    QuestionAsked,
    RecoveryNoted,
    TurnBegan,
    TurnClaimed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
    TurnView,
    decode_entry,
    encode_entry,
    fold,
)
from perdure.core.messages import Attachment, Sender
from perdure.core.recovery.decision import RecoveryPolicy
from perdure.core.recovery.note import note_for_model
from perdure.core.roles import ToolRights
from perdure.errors import StoreBroken, TurnWaits
from perdure.testing.faults import Crash

ANN = Sender("ann", "Ann")
SESSION_KEY = "agent:main:test:dm:ann"
TICK_MS = 1000  # milliseconds between two records

EntryPredicate = Callable[[Entry], bool]


class RecordingTurn:
    """A `TurnContext` that keeps its journal in a list.

    Every `append` counts. With `crash()` or `break_store()` one of them is the last: from then on nothing can be
    saved, as if the process had been killed, or its disk had failed. `resumed()` is the same turn after the
    restart, and `answered()` after a person has answered its question. What is in `waiting` is taken in where the
    agent listens.
    """

    def __init__(
        self,
        *texts: str,
        records: Iterable[JournalRecord] = (),
        history: Sequence[TurnView] = (),
        shows: bool = False,
        turn: str = "t1",
    ) -> None:
        self.turn = turn
        self.key = SESSION_KEY
        self.history = history
        self.shows = shows
        self.rights = ToolRights("owner", ("*",), ANN.id)  # of the person whose words began the turn
        self.shown: list[str] = []
        self.appends = 0
        self.over: BaseException | None = None  # the error of every further append
        self.view = fold(records)
        self._first = 1 + max((record.seq for view in history for record in view.records), default=0)
        self._make_ending: Callable[[], BaseException] = Crash
        self._end_at: int | None = None
        self._end_when: EntryPredicate = lambda _: False
        self._end_after = False
        self.waiting: list[str] = []  # messages that people wrote while the turn ran
        if not self.view.records:
            began = TurnBegan(tuple(_cause(text, number) for number, text in enumerate(texts or ("Go.",), 1)))
            self.write(began, TurnClaimed("r1", 1, 1))

    @property
    def records(self) -> list[JournalRecord]:
        return self.view.records

    @property
    def entries(self) -> list[Entry]:
        return [record.entry for record in self.records]

    # ── how it ends ─────────────────────────────────────────────────────────────────────────────────────────

    def crash(
        self, at: int | None = None, *, when: EntryPredicate | None = None, after: bool = False
    ) -> RecordingTurn:
        """Crash at the n-th append, or the first of an entry type, before or `after` saving it. Return itself."""
        return self._set_ending(Crash, at, when, after=after)

    def break_store(self, at: int | None = None, *, when: EntryPredicate | None = None) -> RecordingTurn:
        """Fail every append from the n-th on, or from the first of an entry type on. Return itself."""
        return self._set_ending(lambda: StoreBroken("the disk failed"), at, when, after=False)

    def _set_ending(
        self, end: Callable[[], BaseException], at: int | None, when: EntryPredicate | None, *, after: bool
    ) -> RecordingTurn:
        self._make_ending, self._end_at, self._end_after = end, at, after
        self._end_when = when or self._end_when
        return self

    # ── what comes next ─────────────────────────────────────────────────────────────────────────────────────

    def resumed(self, *joined: str, reason: str = "restart_interrupted") -> RecordingTurn:
        """Return the turn after a restart: interrupted, requeued, claimed, with a note for the model due."""
        turn = self._restarted(TurnInterrupted(reason, f"r{self.view.attempt}"), TurnRequeued())
        if joined:
            turn.write(MessagesJoined(tuple(_cause(text, 100 * turn.view.attempt) for text in joined)))
        note = note_for_model(turn.view, turn.history, turn.records[-1].at, RecoveryPolicy().freshness_ms)
        if note is not None:
            turn.write(RecoveryNoted(note))
        return turn

    def answered(self, text: str, *, chosen: bool = True) -> RecordingTurn:
        """Return the turn after a person has answered its question."""
        asked = self.view.question
        assert asked is not None, "the turn asks nothing"  # noqa: S101 reason: a mistake in the test that uses this
        return self._restarted(QuestionAnswered(asked.question, text, ANN, "m9", chosen))

    def followed_by(self, *texts: str) -> RecordingTurn:
        """Return the next turn of the same session."""
        return RecordingTurn(*texts, history=[*self.history, self.view], shows=self.shows, turn=f"{self.turn}n")

    def finish(self, reply: Reply) -> None:
        """Commit a reply as the gateway does: its last entries and the end of the turn together."""
        self.write(*reply.closing, TurnFinished(reply.text))

    def _restarted(self, *entries: Entry) -> RecordingTurn:
        """Return the turn of the next process, decoded from the encoded journal."""
        read = [_read_back(record) for record in self.records]
        turn = RecordingTurn(records=read, history=self.history, shows=self.shows, turn=self.turn)
        attempt = turn.view.attempt + 1
        turn.waiting = list(self.waiting)
        turn.write(*entries, TurnClaimed(f"r{attempt}", attempt, attempt))
        return turn

    # ── what an agent uses ──────────────────────────────────────────────────────────────────────────────────

    async def tool_rights(self) -> ToolRights:
        return self.rights

    async def append(self, *entries: Entry) -> None:
        await asyncio.sleep(0)  # as with a real store, other tasks run before an append is saved
        if self.over is not None:
            raise self.over
        self.appends += 1
        fatal = self.appends == self._end_at or any(map(self._end_when, entries))
        if not fatal or self._end_after:
            self.write(*entries)
        if fatal:
            self.over = self._make_ending()
            raise self.over

    async def listen(self) -> None:
        if self.over is not None:
            raise self.over
        if self.waiting:
            joined = MessagesJoined(tuple(_cause(text, 1000 + len(self.records)) for text in self.waiting))
            heard, self.waiting = self.waiting, []
            try:
                await self.append(joined)
            finally:
                if joined not in self.entries:
                    self.waiting = heard

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        await self.append(*also, QuestionAsked(question, text, tuple(options), approves=approves))
        self.over = TurnWaits("the turn waits for an answer")
        raise self.over

    def show(self, text: str) -> None:
        self.shown.append(text)

    def find(self, file: Attachment) -> str | None:
        return file.path

    def alive(self) -> None:
        """Do nothing: no inactivity watch ends this turn."""

    def write(self, *entries: Entry) -> None:
        """Append entries to the journal on behalf of the gateway."""
        for entry in entries:
            seq = self._first + len(self.records)
            self.view.apply(JournalRecord(seq, seq * TICK_MS, entry))


def _cause(text: str, number: int) -> Cause:
    return Cause(f"in_{number}", text, ANN, f"m{number}")


def _read_back(record: JournalRecord) -> JournalRecord:
    entry = record.entry
    return JournalRecord(record.seq, record.at, decode_entry(entry.kind, entry.version, encode_entry(entry)))
