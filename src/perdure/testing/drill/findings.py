"""Finds the faults of a drill, by what people saw, what steps left in files, and what the journal says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from perdure.core import texts
from perdure.core.states import FINAL_STATES, CancelReason, TurnState
from perdure.errors import PerdureError
from perdure.store.audit import StoreAudit
from perdure.store.backends.read_only import open_read_only
from perdure.store.database import Database
from perdure.testing.drill.people import DrillPeople, WrittenMessage
from perdure.testing.drill.points import Point
from perdure.testing.drill.report import (
    FAULTS,
    UNKNOWN,
    RoundRecord,
    chat_of_key,
    chats_by_turn,
    find_stale_epochs,
    find_wrong_notes,
)
from perdure.testing.drill.scenarios import DrillChat, ExecutionTraces

DUPLICATE_MARK = texts.delivery.maybe_duplicate("").strip()
TRACED_TOOLS = ("step", "once")  # tools that leave a trace by their key

Findings = dict[str, list[str]]


class FaultFinder:
    """Compares the record of the rounds with the database, the traces and the messages that people saw."""

    def __init__(
        self,
        store: StoreAudit,
        people: DrillPeople,
        traces: ExecutionTraces,
        record: RoundRecord,
        *,
        may_give_up: bool,
    ) -> None:
        self._store = store
        self._people = people
        self._traces = traces
        self._record = record
        self._describe = record.describe_chat
        self._may_give_up = may_give_up
        self.given_up = 0

    async def find_all(self) -> Findings:
        """Return every finding, by the name of its count."""
        found: Findings = {name: [] for name in (*FAULTS, UNKNOWN)}
        await self._find_lost(found)
        found["lost"] += [*self._missing_exit_reports(), *await self._calls_without_result()]
        found["notes"] += await self._wrong_notes()
        found["epochs"] += await self._wrong_epochs()
        found["repeated"] += [*self._repeated_calls(), *await self._repeated_answers()]
        found["duplicates"] += [*self._duplicate_messages(), *self._repeated_exit_reports()]
        found["phantoms"] += [*await self._unrequested_turns(), *self._late_messages()]
        found["stuck"] += await self._stuck_turns()
        found[UNKNOWN] += [*await self._unknown_outcomes(), *self._marked_messages()]
        return found

    async def _find_lost(self, found: Findings) -> None:
        """Look for the answer to each message that people wrote."""
        received = {each.event_key: each for each in await self._store.messages()}
        states = {turn.id: turn.state for turn in await self._store.turns()}
        # In the queue mode `interrupt`, a later message replaces a turn.
        replaced = await self._store.cancelled_turns(CancelReason.REPLACED)
        given_up = await self._store.cancelled_turns(CancelReason.SUPERSEDED) if self._may_give_up else set()
        expired = await self._store.turns_with_expired_replies()
        for written in self._people.written:
            message, chat = received.get(written.event_key), self._describe(written.conversation.chat)
            turn = message.turn if message and message.turn else ""
            if turn in replaced or self._is_answered(written, turn, states.get(turn, "")):
                continue
            if turn in expired:
                found[UNKNOWN].append(f"{chat}: an answer was cut off and not sent again, as configured")
            elif turn in given_up and self._people.has_reply_about(written, f"{turn}."):
                self.given_up += 1
            else:
                state = message.state if message else "not stored"
                found["lost"].append(f"{chat}: {written.mark} never came; its message is {state}")

    def _is_answered(self, written: WrittenMessage, turn: str, state: str) -> bool:
        """Tell whether people saw the mark of the answer, or the reply that reports the failure of the turn."""
        marked = any(written.mark in each.text for each in self._people.seen(written.conversation))
        return marked or (state == TurnState.FAILED and self._people.has_reply_about(written, f"{turn}:"))

    def _missing_exit_reports(self) -> Iterator[str]:
        for conversation in self._record.conversations:
            for phrase in conversation.told:
                if not any(phrase in text for text in self._people.exit_reports(conversation)):
                    yield f"{self._describe(conversation.chat)}: nobody was told of the end of its process"

    def _repeated_exit_reports(self) -> Iterator[str]:
        """Find ends of processes that were reported twice, or although the agent had seen them."""
        for conversation in self._record.conversations:
            clean = [text for text in self._people.exit_reports(conversation) if DUPLICATE_MARK not in text]
            if len(clean) > len(conversation.told):
                yield (
                    f"{self._describe(conversation.chat)}: the end of its process was told "
                    f"{texts.phrases.times(len(clean))}"
                )

    async def _wrong_notes(self) -> list[str]:
        """Find turns whose agent resumed without a note of its interruption, or got a note too many."""
        chats = await chats_by_turn(self._store)
        wrong = find_wrong_notes(await self._store.interruptions())
        return [f"{self._describe(chats[turn])}: {words}" for turn, words in wrong]

    async def _wrong_epochs(self) -> list[str]:
        chats = await chats_by_turn(self._store)
        found = self._record.stale_epochs | find_stale_epochs(await self._store.epochs())
        return [f"{self._describe(chats[turn])}: {words}" for turn, words in found.items()]

    async def _calls_without_result(self) -> list[str]:
        """Find calls of ended turns without a result, and results of calls that left no trace."""
        found, ran = [], self._traces.runs_by_key()
        ended = {
            turn.id: chat_of_key(turn.key) for turn in await self._store.turns() if turn.state in FINAL_STATES
        }
        for call in await self._store.calls():
            if call.turn in ended and call.ended is None:
                found.append(f"{self._describe(ended[call.turn])}: the call {call.key} never had a result")
            elif call.tool in TRACED_TOOLS and call.ended and call.ended.outcome == "ok" and not ran[call.key]:
                found.append(
                    f"{self._describe(ended.get(call.turn, call.turn))}: {call.key} has a result, and never ran"
                )
        return found

    def _repeated_calls(self) -> Iterator[str]:
        by_key, by_name = self._traces.runs_by_key(), self._traces.runs_by_name()
        for key, (chat, ran) in self._record.finished_calls.items():
            if by_key[key] > ran:
                yield f"{self._describe(chat)}: the call {key} was finished, and ran again"
        for conversation in self._record.conversations:
            for name in (*conversation.once, *conversation.commands):
                if by_name[name] > 1:
                    yield f"{self._describe(conversation.chat)}: {name} ran {texts.phrases.times(by_name[name])}"

    async def _repeated_answers(self) -> list[str]:
        now = await self._store.final_answers()
        return [
            f"{self._describe(chat)}: the final answer of {turn} was there, and the model was asked again"
            for turn, (chat, count) in self._record.final_answers.items()
            if now[turn] > count
        ]

    def _duplicate_messages(self) -> Iterator[str]:
        for conversation in self._record.conversations:
            clean = [each.text for each in self._people.seen(conversation) if DUPLICATE_MARK not in each.text]
            shown = Counter({mark: sum(mark in text for text in clean) for mark in conversation.marks})
            others = [text for text in clean if not any(mark in text for mark in conversation.marks)]
            shown.update(text.splitlines()[0] for text in others if conversation.chat in text)
            for text, count in shown.items():
                if count > 1:
                    yield f"{self._describe(conversation.chat)}: {text!r} was shown {texts.phrases.times(count)}"

    async def _unrequested_turns(self) -> list[str]:
        allowed = {conversation.chat: conversation.turns for conversation in self._record.conversations}
        return [
            f"{self._describe(chat)}: {count} turns, and people asked for {allowed.get(chat, 0)}"
            for chat, count in Counter((await chats_by_turn(self._store)).values()).items()
            if count > allowed.get(chat, 0)
        ]

    def _late_messages(self) -> Iterator[str]:
        for conversation in self._record.conversations:
            seen = self._people.seen(conversation)
            for each in seen[self._record.seen_at_round_end.get(conversation.chat, len(seen)) :]:
                yield f"{self._describe(conversation.chat)}: {each.text.splitlines()[0]!r} came when all was over"
        chats = {conversation.chat for conversation in self._record.conversations}
        for each in self._people.stray_messages(chats):
            yield f"{each.address.chat}: {each.text!r} came, where nobody had written"

    async def _stuck_turns(self) -> list[str]:
        begun = [turn for turn in await self._store.turns() if turn.state not in FINAL_STATES]
        return [f"{self._describe(chat_of_key(turn.key))}: the turn {turn.id} is {turn.state}" for turn in begun]

    async def _unknown_outcomes(self) -> list[str]:
        ran, chats = self._traces.runs_by_key(), await chats_by_turn(self._store)
        calls = [
            f"{self._describe(chats[call.turn])}: `{call.tool}` was cut off; the agent was told, and "
            "did not repeat it"
            + (f" (it {'had' if ran[call.key] else 'had not'} begun)" if call.tool in TRACED_TOOLS else "")
            for call in await self._store.calls()
            if call.ended is not None and call.ended.outcome == "unknown"
        ]
        lost = await self._store.lost_commands()
        return [*calls, *(f"nobody knows how `{command}` ended; its chat was told so" for command in lost)]

    def _marked_messages(self) -> Iterator[str]:
        for conversation in self._record.conversations:
            for each in self._people.seen(conversation):
                if DUPLICATE_MARK in each.text:
                    yield f"{self._describe(conversation.chat)}: a message was cut off, and sent again with a mark"
            for _ in self._people.leftover_previews(conversation):
                yield (
                    f"{self._describe(conversation.chat)}: an answer that was growing was cut off; "
                    "what was shown of it stays"
                )


class Audit:
    """Reads the drill's database beside its gateways, and writes nothing."""

    def __init__(self, home: Path, people: DrillPeople, *, may_give_up: bool = False) -> None:
        self._url = f"sqlite:///{home / 'perdure.db'}"
        self._people = people
        self._may_give_up = may_give_up
        self._database: Database | None = None
        self._record = RoundRecord()
        self.given_up = 0
        self.traces = ExecutionTraces(home)

    async def open(self) -> None:
        self._database = await open_read_only(self._url)

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()

    @property
    def _store(self) -> StoreAudit:
        if self._database is None:
            raise PerdureError("the drill has not been opened")
        return StoreAudit(self._database)

    async def is_quiet(self) -> bool:
        """Tell whether neither the gateway nor the people have anything left to do."""
        if self._people.has_unread() or not await self._store.is_idle():
            return False
        return not self._people.has_unread()  # the gateway may have sent a message during the query

    def begin_round(self, conversations: Sequence[DrillChat], points: Sequence[Point]) -> None:
        self._record.begin_round(conversations, points)

    async def note_kill(self) -> None:
        """Record what was finished when the gateway was killed: none of it may run again."""
        await self._record.note_kill(self._store, self.traces.runs_by_key())

    async def end_round(self, conversations: Sequence[DrillChat]) -> None:
        """Record that these conversations are over: no further message may come in their chats."""
        await self._record.end_round(
            self._store, {each.chat: len(self._people.seen(each)) for each in conversations}
        )

    async def turns(self) -> int:
        return len(await self._store.turns())

    async def findings(self) -> Findings:
        """Return all findings, by the name of their count; updates `given_up`."""
        finder = FaultFinder(self._store, self._people, self.traces, self._record, may_give_up=self._may_give_up)
        found = await finder.find_all()
        self.given_up += finder.given_up
        return found
