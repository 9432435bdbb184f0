"""The journal of a turn while an attempt runs, and the replies and questions that it owes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

from perdure.core import texts
from perdure.core.address import background_number, split_session_key
from perdure.core.conversation import turn_views, visible_turns
from perdure.core.delivery import split_reply
from perdure.core.journal import Entry, JournalRecord, QuestionAsked, ToolEnded, TurnInterrupted, TurnView, fold
from perdure.core.messages import Button, Pick, question_id, question_reply_id
from perdure.core.queue import QueueRules
from perdure.core.recovery.decision import times_asked
from perdure.errors import TurnMoved
from perdure.runtime.backoff import retry_while_unavailable
from perdure.runtime.gateway_run import GatewayRun
from perdure.store.authorisation import MayJoin
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxReply

T = TypeVar("T")


class TurnJournal:
    """The entries of a claimed turn. `TurnMoved` says that the turn no longer belongs to this attempt."""

    def __init__(self, run: GatewayRun, claim: Claim) -> None:
        self._run = run
        self._store = run.store
        self._turn = claim.turn
        self.active_at = run.clocks.steady()  # the last sign of life of the attempt
        self.view = fold(claim.records)
        self.history: Sequence[TurnView] = visible_turns(turn_views(claim.earlier or ()))
        self._history_loaded = claim.earlier is not None

    def alive(self) -> None:
        """Note a sign of life: something was stored, or the store is awaited."""
        self.active_at = self._run.clocks.steady()

    async def load_history(self) -> None:
        """Read the earlier turns of the session, if they were too many to come with the claim."""
        if not self._history_loaded:
            turn = self._turn
            records = await self.when_available(
                lambda: self._store.journal.read_before(turn.session, turn.first_seq)
            )
            self.history, self._history_loaded = visible_turns(turn_views(records)), True

    async def append(self, entries: Sequence[Entry], replies: Sequence[OutboxReply] = (), *, late: bool) -> None:
        """Store entries and replies in one transaction."""
        clock, wakeups = self._run.clocks.wall, self._run.wakeups
        self._apply(
            await self.when_available(
                lambda: self._store.turns.append(self._turn, entries, clock(), replies=replies, late=late)
            )
        )
        (wakeups.wake_delivery if replies else wakeups.publish)(self._turn.key)

    async def join_waiting(self, rules: QueueRules, may_join: MayJoin) -> bool:
        """Let the messages that wait to be heard join the turn. Returns whether there were any."""

        async def join() -> list[JournalRecord] | None:
            if not await self._store.queue.has_steering_message(self._turn.key):
                return []
            return await self._store.queue.join(self._turn, rules, self._run.clocks.wall(), may_join)

        records = await self.when_available(join)
        if records == []:
            return False
        self._apply(records)
        self._run.wakeups.publish(self._turn.key)
        return True

    async def interrupt(self, reason: str) -> bool:
        """Mark the turn as interrupted. False: the turn had ended already."""
        entries = [TurnInterrupted(reason)]
        return await self._store.turns.append(self._turn, entries, self._run.clocks.wall()) is not None

    def _apply(self, records: Sequence[JournalRecord] | None) -> None:
        if records is None:
            raise TurnMoved(f"turn {self._turn.id} is no longer ours")
        self.alive()
        for record in records:
            self.view.apply(record)

    def when_available(self, operation: Callable[[], Awaitable[T]]) -> Awaitable[T]:
        """Await an operation of the store as long as it takes; waiting counts as a sign of life."""
        return retry_while_unavailable(operation, on_wait=self.alive, turn=self._turn.id)


def final_replies(
    turn: str, key: str, text: str, reply_to: str | None, max_length: int | None
) -> list[OutboxReply]:
    """The reply at the end of a turn, in parts that its platform takes; none if the text is empty."""
    parts = split_reply(texts.chat_commands.background_label(background_number(key), text), max_length)
    return [OutboxReply(split_session_key(key)[1], turn, tuple(parts), reply_to)] if any(parts) else []


def file_replies(turn: str, key: str, entries: Sequence[Entry], reply_to: str | None) -> Iterator[OutboxReply]:
    """One reply for each file that the results of tool calls send."""
    for entry in entries:
        if not isinstance(entry, ToolEnded):
            continue
        for number, file in enumerate(entry.files):
            text = (
                texts.chat_commands.background_label(background_number(key), file.caption)
                if file.caption
                else file.name
            )
            name = f"{turn}.sends.{entry.call}.{number}"
            yield OutboxReply(split_session_key(key)[1], name, (text,), reply_to, file=file)


def question_reply(
    turn: str, key: str, asked: QuestionAsked, view: TurnView, max_length: int | None, repeat_reason: str = ""
) -> OutboxReply:
    """The reply that asks a question of a turn; `repeat_reason` says why a question is asked once more."""
    number, text = background_number(key), asked.text
    words = (
        texts.chat_commands.background_approval(number, text)
        if asked.approves
        else texts.chat_commands.background_question(number, text, asked.options)
    )
    parts = split_reply(f"{repeat_reason}\n\n{words}" if repeat_reason else words, max_length)
    name = question_reply_id(turn, asked.question, times_asked(view, asked.question) if repeat_reason else 0)
    return OutboxReply(split_session_key(key)[1], name, tuple(parts), view.reply_to, _buttons(turn, number, asked))


def _buttons(turn: str, session_number: int | None, asked: QuestionAsked) -> tuple[Button, ...]:
    """One button for each option; pressing it is the same as writing the option."""
    if asked.approves:
        pairs = zip(asked.options, ("approve", "deny"), strict=True)
        name = f"{turn}.{asked.approves}"
        return tuple(
            Button(label, texts.chat_commands.background_command(verb, session_number, name))
            for label, verb in pairs
        )
    name = question_id(turn, asked.question)
    return tuple(
        Button(option, _button_text(session_number, option), Pick(name, number))
        for number, option in enumerate(asked.options)
    )


def _button_text(session_number: int | None, option: str) -> str:
    return (
        option
        if session_number is None
        else texts.chat_commands.background_command("answer", session_number, option)
    )
