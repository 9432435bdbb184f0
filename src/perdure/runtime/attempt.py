"""One attempt at a turn: the context in which an agent works, and the run of the agent in it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

import msgspec
from msgspec import Struct

from perdure.agents.api import Agent, Reply
from perdure.containment import find_error, raise_uncontained
from perdure.core import texts
from perdure.core.address import Address, split_session_key
from perdure.core.effects import Effect
from perdure.core.inactivity import only_waits_for_commands
from perdure.core.journal import (
    Entry,
    ModelAsked,
    ModelFailed,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    TurnFailed,
    TurnFinished,
    TurnView,
    attached_files,
    return_entries,
)
from perdure.core.messages import Attachment
from perdure.core.queue import QueueRules
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.recovery.note import note_for_model
from perdure.core.roles import ToolRights
from perdure.core.storable_text import make_storable
from perdure.errors import ModelError, NewerEntry, TurnMoved, TurnWaits
from perdure.logs import Log
from perdure.runtime.access import Access
from perdure.runtime.attachment_cache import AttachmentCache
from perdure.runtime.backoff import Backoff
from perdure.runtime.gateway_run import GatewayRun
from perdure.runtime.recovery_slots import RecoverySlots
from perdure.runtime.tasks import FailureLog
from perdure.runtime.turn_display import TurnDisplay
from perdure.runtime.turn_journal import TurnJournal, file_replies, final_replies, question_reply
from perdure.store.attachments import MAX_FILES
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxReply

log = Log("attempt")


SIGN_OF_LIFE_SECONDS = 30.0  # between two signs of life of an attempt that waits for a slot


def has_used_commands(view: TurnView) -> bool:
    """Whether a turn has started a shell command, which may outlive it."""
    started = (call.started for call in view.calls.values())
    return any(intent is not None and intent.effect is Effect.ATTACHED for intent in started)


class TurnLimits(Struct, frozen=True):
    """What every turn of a gateway is held to, by the configuration."""

    max_tokens: int | None  # of a turn that was interrupted and is resumed automatically
    approval_ms: int  # how long an approval may be given
    freshness_ms: int  # the age up to which an interrupted turn is resumed
    rules: QueueRules


class Attempt:
    """Journals for its agent. While the store takes no writes, the agent waits: nothing runs unrecorded."""

    def __init__(
        self,
        run: GatewayRun,
        claim: Claim,
        limits: TurnLimits,
        attachments: AttachmentCache,
        slots: RecoverySlots,
        access: Access,
    ) -> None:
        self._run = run
        self._access = access
        self._row = claim.turn
        self._limits = limits
        self._attachments = attachments
        self._slots = slots
        self._max_length = run.connections.max_length(address_of(claim.turn.key).platform)
        self.journal = TurnJournal(run, claim)
        self.view = self.journal.view
        self.display = TurnDisplay(run, claim.turn)
        self.began = self.journal.active_at
        self.task: asyncio.Task[None] | None = None  # in which the agent runs, as soon as it has begun
        # Messages may wait to be heard. A wake-up for those that another gateway stores may be lost.
        self.may_have_messages = claim.more_waiting

    @property
    def turn(self) -> str:
        return self._row.id

    @property
    def key(self) -> str:
        return self._row.key

    @property
    def epoch(self) -> int:
        return self._row.epoch

    @property
    def history(self) -> Sequence[TurnView]:
        return self.journal.history

    @property
    def active_at(self) -> int:
        """When the attempt gave its last sign of life, by the steady clock."""
        return self.journal.active_at

    @property
    def shows(self) -> bool:
        return self.display.supports_preview

    def show(self, text: str) -> None:
        self.alive()
        self.display.show(make_storable(text), self.view.reply_to)

    def alive(self) -> None:
        self.journal.alive()

    def find(self, file: Attachment) -> str | None:
        place = self._attachments.find(file.path)
        return None if place is None else str(place)

    async def fetch_files(self) -> None:
        """Bring the newest files of the conversation into the home, where the model and the tools read them."""
        if self._run.store.database.exclusive:
            return
        files = [file for view in (*self.history, self.view) for _, file in attached_files(view)]
        paths = [file.path for file in files if file.path]
        await self.journal.when_available(lambda: self._attachments.fetch_all(paths[-MAX_FILES:]))

    async def tool_rights(self) -> ToolRights:
        return await self.journal.when_available(lambda: self._access.tool_rights(self._row))

    async def append(self, *entries: Entry) -> None:
        if any(isinstance(entry, ModelAsked) for entry in entries) and self._is_over_token_limit():
            raise ModelError(texts.turns.recovery_tokens_spent(self.view.tokens, self._limits.max_tokens or 0))
        await self._save(entries, list(file_replies(self.turn, self.key, entries, self.view.reply_to)))
        for entry in entries:
            if isinstance(entry, ModelFailed):
                _log_model_failure(entry, self.turn, self.key)
        await self._acquire_slot()
        await self._run.lease.wait_until_valid()

    async def _acquire_slot(self) -> None:
        """Release the slot of a recovery that only waits for a command; otherwise wait until it has a slot."""
        if only_waits_for_commands(self.view):
            self._slots.release(self.turn)
        elif _is_resumed_automatically(self.view) and self._slots.needs_slot(self.turn):
            must_wait = self._slots.must_wait(self.turn)
            granted = self._slots.request(self._row, running=True)
            if must_wait:
                await self._save(
                    [RecoveryDecided(RecoveryChoice.RESUME, texts.recovery.SLOT_FREE, rule=RecoveryRule.RESUME)]
                )
            while not granted.done():
                self.alive()  # waiting for others is no inactivity of this turn
                await asyncio.wait({granted}, timeout=SIGN_OF_LIFE_SECONDS)

    async def listen(self) -> None:
        """Let waiting messages join the turn; the database is asked only if there may be some."""
        if not self.may_have_messages and self._run.store.database.exclusive:
            return
        self.may_have_messages = False
        if await self.journal.join_waiting(self._limits.rules, self._access.authorisation.may_join):
            log.info("joined", turn=self.turn, key=self.key)
            await self.fetch_files()
            await self._run.lease.wait_until_valid()

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        question, until = (
            make_storable(question),
            self._run.clocks.wall() + self._limits.approval_ms if approves else 0,
        )
        asked = QuestionAsked(question, text, tuple(options), approves=approves, until=until)
        self.display.stop_typing()
        await self._save([*also, asked], [question_reply(self.turn, self.key, asked, self.view, self._max_length)])
        log.info("asked", turn=self.turn, key=self.key)
        raise TurnWaits(f"turn {self.turn} waits for an answer")

    async def append_recovery_note(self) -> None:
        """Tell the model, once, what was interrupted, or what else it must know of the time before."""
        note = note_for_model(self.view, self.journal.history, self._run.clocks.wall(), self._limits.freshness_ms)
        if note is not None:
            await self.append(RecoveryNoted(note))

    async def finish(self, reply: Reply) -> None:
        """Store the closing entries, the end of the turn and its reply in one transaction."""
        await self.display.stop()
        await self._save([*reply.closing, TurnFinished(reply.text)], self._final_replies(reply.text))
        log.info("finished", turn=self.turn, key=self.key)

    async def fail(self, error: str) -> None:
        """Store the end of the turn and the reply that tells of the failure in one transaction."""
        await self.display.stop()
        left = return_entries(self.view) if self._is_over_token_limit() else []
        await self._save([*left, TurnFailed(error)], self._final_replies(texts.turns.failed(error)))
        log.warning("failed", turn=self.turn, key=self.key, error=error)

    def _is_over_token_limit(self) -> bool:
        """Whether an automatic resume has spent its tokens; what a person asked for has no such limit."""
        limit = self._limits.max_tokens
        return _is_resumed_automatically(self.view) and limit is not None and self.view.tokens >= limit

    def _final_replies(self, text: str) -> list[OutboxReply]:
        return final_replies(self.turn, self.key, text, self.view.reply_to, self._max_length)

    async def _save(self, entries: Sequence[Entry], replies: Sequence[OutboxReply] = ()) -> None:
        # A call that ended before its cancellation keeps its result, one that returns after it has none.
        late = self.task is None or not self.task.cancelling()
        await self.journal.append(entries, replies, late=late)


def _is_resumed_automatically(view: TurnView) -> bool:
    """Whether the turn was interrupted and resumed though no person and no message asked for it."""
    return view.last_decision is not None and view.last_decision.rule == RecoveryRule.RESUME


def _log_model_failure(entry: ModelFailed, turn: str, key: str) -> None:
    """Log which try of a model call failed, what the provider said, and when the next try comes."""
    fields = {name: value for name, value in msgspec.to_builtins(entry).items() if value is not None}
    log.warning(entry.kind, turn=turn, key=key, **fields)


def address_of(key: str) -> Address:
    return split_session_key(key)[1]


async def run_agent(attempt: Attempt, agent_for: Callable[[str], Agent], failures: FailureLog) -> None:
    """Run the agent to the end of the attempt: its turn then has ended, waits, or belongs to somebody else."""
    try:
        await attempt.journal.load_history()
        await attempt.fetch_files()
        await attempt.append_recovery_note()
        agent = agent_for(address_of(attempt.key).platform)
        await attempt.finish(await agent.run(attempt))
    except BaseException as error:  # noqa: BLE001 reason: whatever an agent does, its session must stay usable
        raise_uncontained(error)
        await _end_with_error(attempt, error, failures)
    finally:
        await attempt.display.stop()


async def fail_turn(attempt: Attempt, error: str) -> bool:
    """End the turn of an attempt as failed. False: the turn no longer belongs to this attempt."""
    try:
        await attempt.fail(error)
    except TurnMoved as moved:
        log.info("attempt_ended", turn=attempt.turn, why=moved.message)
        return False
    return True


async def _end_with_error(attempt: Attempt, error: BaseException, failures: FailureLog) -> None:
    moved = find_error(error, TurnMoved, TurnWaits)
    if moved is not None:
        log.info("attempt_ended", turn=attempt.turn, why=moved.message)
    elif isinstance(error, ModelError):
        await _fail_until_saved(attempt, error.message, failures)
    else:
        log.crash("agent_crashed", error, turn=attempt.turn)
        text = texts.turns.NEWER_ENTRY if isinstance(error, NewerEntry) else texts.turns.AGENT_CRASHED
        await _fail_until_saved(attempt, text, failures)


async def _fail_until_saved(attempt: Attempt, error: str, failures: FailureLog) -> None:
    """End the turn as failed, and retry until that is stored: a turn that nobody runs must not stay open."""
    backoff = Backoff()
    while True:
        if await failures.contain("failure_not_saved", fail_turn(attempt, error)):
            return
        await asyncio.sleep(backoff.failed())
