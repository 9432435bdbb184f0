"""One attempt at a turn: the context that its agent works in."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NoReturn, TypeVar

import msgspec
from msgspec import Struct

from perdure.agents.api import Reply
from perdure.core import texts
from perdure.core.address import Address, background_number, split_session_key
from perdure.core.conversation import turn_views, visible_turns
from perdure.core.delivery import split_reply
from perdure.core.effects import Effect
from perdure.core.inactivity import only_waits_for_commands
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAsked,
    ModelFailed,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    ToolEnded,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnView,
    fold,
    return_entries,
)
from perdure.core.messages import Attachment
from perdure.core.queue import QueueRules
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.recovery.note import note_for_model
from perdure.core.storable_text import make_storable
from perdure.errors import ModelError, TurnMoved, TurnWaits
from perdure.logs import Log
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.previews import PREVIEW_STOP_SECONDS, AnswerPreview
from perdure.runtime.question_message import question_reply
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.store_retry import retry_while_unavailable
from perdure.runtime.typing_indicator import TypingIndicator
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxReply
from perdure.tools.attachments import AttachmentFiles

log = Log("attempt")

T = TypeVar("T")

SIGN_OF_LIFE_SECONDS = 30.0  # seconds between two signs of life of an attempt that waits for a slot


class TurnLimits(Struct, frozen=True):
    """What every turn of a gateway is held to, by the configuration."""

    max_tokens: int | None  # of a turn that was interrupted and is resumed automatically
    approval_ms: int  # how long an approval may be given
    freshness_ms: int  # the age up to which an interrupted turn is resumed
    rules: QueueRules


class Attempt:
    """Journals for its agent. While the store takes no writes it waits: nothing runs that is not saved."""

    def __init__(
        self,
        run: GatewayRun,
        claim: Claim,
        limits: TurnLimits,
        *,
        preview: AnswerPreview,
        typing: TypingIndicator,
        attachments: AttachmentFiles,
        slots: RecoverySlots,
    ) -> None:
        self._run = run
        self._store = run.store
        self._clock = run.clocks.wall
        self._row = claim.turn
        self._limits = limits
        self._max_length = run.connections.max_length(address_of(claim.turn.key).platform)
        self._preview = preview
        self._typing = typing
        self._attachments = attachments
        self._slots = slots
        self._background_number = background_number(claim.turn.key)
        self.view = fold(claim.records)
        self.history: Sequence[TurnView] = visible_turns(turn_views(claim.earlier or ()))
        self._history_loaded = claim.earlier is not None
        self.began = self.active_at = run.clocks.steady()  # its start, and its last sign of life
        self.task: asyncio.Task[None] | None = None  # the agent runs in it, as soon as it has begun
        self.notice_task: asyncio.Task[None] | None = (
            None  # what is being said in passing, such as that it goes on
        )
        self.silenced = False  # nothing is said in passing any more
        self.may_have_messages = (
            claim.more_waiting
        )  # somebody may have written; of what another gateway takes in, nobody tells us

    @property
    def turn(self) -> str:
        return self._row.id

    @property
    def key(self) -> str:
        return self._row.key

    @property
    def used_commands(self) -> bool:
        """Whether the turn has begun a command, which may live on without it."""
        started = (call.started for call in self.view.calls.values())
        return any(intent is not None and intent.effect is Effect.ATTACHED for intent in started)

    @property
    def _resumed_automatically(self) -> bool:
        """Whether it was cut off and is resumed though no person and no message asked for it."""
        return self.view.last_decision is not None and self.view.last_decision.rule == RecoveryRule.RESUME

    @property
    def shows(self) -> bool:
        return self._preview.is_supported

    def show(self, text: str) -> None:
        self.alive()
        self._preview.show(make_storable(text), self.view.reply_to)

    def alive(self) -> None:
        self.active_at = self._run.clocks.steady()

    def find(self, file: Attachment) -> str | None:
        place = self._attachments.find(file.path)
        return None if place is None else str(place)

    async def stop_showing(self) -> None:
        """Show nothing more of a growing answer, and say nothing more in passing: neither follows the answer."""
        self.silenced = True
        self._typing.end()
        await self._preview.stop()
        if self.notice_task is not None:
            await asyncio.wait({self.notice_task}, timeout=PREVIEW_STOP_SECONDS)
            self.notice_task.cancel()

    def silence(self) -> None:
        """Say nothing more in passing, at once: somebody has ended the turn."""
        self.silenced = True
        self._typing.end()
        if self.notice_task is not None:
            self.notice_task.cancel()

    async def append(self, *entries: Entry) -> None:
        if any(isinstance(entry, ModelAsked) for entry in entries):
            self._check_token_limit()
        await self._save(entries, self._file_replies(entries))
        self._log_failures(entries)
        await self._acquire_slot()
        await self._run.lease.wait_until_valid()

    def _log_failures(self, entries: Sequence[Entry]) -> None:
        """Say in the log which try of a model call failed, what the provider said, and when the next one comes."""
        for entry in entries:
            if isinstance(entry, ModelFailed):
                told = {name: value for name, value in msgspec.to_builtins(entry).items() if value is not None}
                log.warning(entry.kind, turn=self.turn, key=self.key, **told)

    async def _acquire_slot(self) -> None:
        """A recovery that only waits for a command gives its slot up, and goes on only when it has one again."""
        if only_waits_for_commands(self.view):
            self._slots.release(self.turn)
        elif self._resumed_automatically and self._slots.needs_slot(self.turn):
            must_wait, granted = self._slots.full, self._slots.request(self._row, running=True)
            if must_wait:
                await self._save(
                    [RecoveryDecided(RecoveryChoice.RESUME, texts.recovery.SLOT_FREE, rule=RecoveryRule.RESUME)]
                )
            while not granted.done():
                self.alive()  # others go first: that is no silence of its own
                await asyncio.wait({granted}, timeout=SIGN_OF_LIFE_SECONDS)

    def _file_replies(self, entries: Sequence[Entry]) -> list[OutboxReply]:
        """What the results of calls send."""
        return [
            OutboxReply(
                address_of(self.key),
                f"{self.turn}.sends.{entry.call}.{number}",
                (texts.background.label(self._background_number, file.caption) if file.caption else file.name,),
                self.view.reply_to,
                file=file,
            )
            for entry in entries
            if isinstance(entry, ToolEnded)
            for number, file in enumerate(entry.files)
        ]

    async def listen(self) -> None:
        """Let join what waits to be heard; the database is asked only if there may be something."""
        if not self.may_have_messages and self._store.database.exclusive:
            return
        self.may_have_messages = False
        records = await self._when_available(self._join_waiting_messages)
        if records is None:
            raise TurnMoved(f"turn {self.turn} is no longer ours")
        if records:
            self._apply_records(records)
            self._run.wakeups.publish(self.key)
            log.info("joined", turn=self.turn, key=self.key)
            await self._run.lease.wait_until_valid()

    async def _join_waiting_messages(self) -> list[JournalRecord] | None:
        if not await self._store.queue.has_steering_message(self.key):
            return []
        return await self._store.queue.join(self._row, self._limits.rules, self._clock())

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        question, until = make_storable(question), self._clock() + self._limits.approval_ms if approves else 0
        asked = QuestionAsked(question, text, tuple(options), approves=approves, until=until)
        self._typing.end()
        await self._save([*also, asked], [question_reply(self.turn, self.key, asked, self.view, self._max_length)])
        log.info("asked", turn=self.turn, key=self.key)
        raise TurnWaits(f"turn {self.turn} waits for an answer")

    async def load_history(self) -> None:
        """Read the earlier turns of the session, if they were too many to come with the claim."""
        if not self._history_loaded:
            records = await self._when_available(
                lambda: self._store.journal.read_before(self._row.session, self._row.first_seq)
            )
            self.history, self._history_loaded = visible_turns(turn_views(records)), True

    async def append_recovery_note(self) -> None:
        """Tell the model, once, what was cut off, or what else it must know of the time before."""
        note = note_for_model(self.view, self.history, self._clock(), self._limits.freshness_ms)
        if note is not None:
            await self.append(RecoveryNoted(note))

    async def finish(self, reply: Reply) -> None:
        """The last facts, the end of the turn and its reply, in one transaction."""
        await self.stop_showing()
        await self._save([*reply.closing, TurnFinished(reply.text)], self._final_replies(reply.text))
        log.info("finished", turn=self.turn, key=self.key)

    async def fail(self, error: str) -> None:
        """The end of the turn, and the sentence that tells of it, in one transaction."""
        await self.stop_showing()
        left = return_entries(self.view) if self._is_over_token_limit() else []
        await self._save([*left, TurnFailed(error)], self._final_replies(texts.turns.failed(error)))
        log.warning("failed", turn=self.turn, key=self.key, error=error)

    def _check_token_limit(self) -> None:
        if self._is_over_token_limit():
            raise ModelError(texts.turns.recovery_tokens_spent(self.view.tokens, self._limits.max_tokens or 0))

    def _is_over_token_limit(self) -> bool:
        """Recovery ends at its cost limit; what a person or a new message asked for does not."""
        limit = self._limits.max_tokens
        return self._resumed_automatically and limit is not None and self.view.tokens >= limit

    async def interrupt(self, reason: str) -> bool:
        """Mark the turn as cut off. False: it had ended already."""
        records = await self._store.turns.append(self._row, [TurnInterrupted(reason)], self._clock())
        return records is not None

    def _final_replies(self, text: str) -> list[OutboxReply]:
        parts = split_reply(texts.background.label(self._background_number, text), self._max_length)
        if parts == [""]:
            return []
        return [OutboxReply(address_of(self.key), self.turn, tuple(parts), self.view.reply_to)]

    async def _save(self, entries: Sequence[Entry], replies: Sequence[OutboxReply] = ()) -> None:
        # A call that ended before its cancellation keeps its result, one that returns after it has none.
        late = self.task is None or not self.task.cancelling()
        records = await self._when_available(
            lambda: self._store.turns.append(self._row, entries, self._clock(), replies=replies, late=late)
        )
        if records is None:
            raise TurnMoved(f"turn {self.turn} is no longer ours")
        self._apply_records(records)
        (self._run.wakeups.wake_delivery if replies else self._run.wakeups.publish)(self.key)

    def _apply_records(self, records: Sequence[JournalRecord]) -> None:
        self.alive()
        for record in records:
            self.view.apply(record)

    def _when_available(self, operation: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Await an operation of the store as long as it takes; waiting counts as a sign of life."""
        return retry_while_unavailable(operation, on_wait=self.alive, turn=self.turn)


def address_of(key: str) -> Address:
    return split_session_key(key)[1]
