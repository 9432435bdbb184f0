"""Counts what a drill did to its conversations: by what people saw, what was left in files, and the journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.session import CancelReason
from perdure.core.turn import FINAL_STATES
from perdure.errors import PerdureError
from perdure.store.audit import StoreAudit
from perdure.store.backends.read_only import open_read_only
from perdure.store.database import Database
from perdure.testing.drill.journal_checks import find_stale_epochs, find_wrong_notes
from perdure.testing.drill.people import DrillPeople, WrittenMessage
from perdure.testing.drill.points import Point
from perdure.testing.drill.report import FAULTS, UNKNOWN
from perdure.testing.drill.scenarios import DrillChat
from perdure.testing.drill.traces import ExecutionTraces

DUPLICATE_MARK = texts.delivery.maybe_duplicate("").strip()
TRACED_TOOLS = ("step", "once")  # tools that leave a trace by their key

Findings = dict[str, list[str]]


class Audit:
    """Looks at the drill's database beside its gateways, and writes nothing."""

    def __init__(self, home: Path, people: DrillPeople, *, may_give_up: bool = False) -> None:
        self._url = f"sqlite:///{home / 'perdure.db'}"
        self._people = people
        self._may_give_up = may_give_up
        self._database: Database | None = None
        self._last_turn = ""  # the last turn of the rounds before
        self._finished_calls: dict[
            str, tuple[str, int]
        ] = {}  # by call: its chat, and how often it had run when finished
        self._final_answers: dict[str, tuple[str, int]] = {}  # by turn: the same of answers that were final
        self._chats_audited: list[DrillChat] = []
        self._kill_points: dict[str, str] = {}  # by chat: where the gateway was killed
        self._seen_at_round_end: dict[
            str, int
        ] = {}  # by chat: how many messages people had seen when its round was over
        self._stale_epochs: dict[str, str] = {}  # by turn: what was wrong with its epoch after a take-over
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

    # ── during the drill ────────────────────────────────────────────────────────────────────────────────────

    async def is_quiet(self) -> bool:
        """Whether nothing is left to be done."""
        if self._people.has_unread() or not await self._store.is_idle():
            return False
        return not self._people.has_unread()  # it may have done something meanwhile

    def begin_round(self, talks: Sequence[DrillChat], points: Sequence[Point]) -> None:
        self._chats_audited += talks
        self._kill_points |= {talk.chat: ", then ".join(map(str, points)) for talk in talks}

    async def note_kill(self) -> None:
        """Remember what was finished when the gateway was killed: none of it must be done again."""
        ran, chats = self.traces.runs_by_key(), await self._chats(self._last_turn)
        for call in await self._store.calls(self._last_turn):
            if call.ended is not None:
                self._finished_calls.setdefault(call.key, (chats[call.turn], ran[call.key]))
        for turn, count in (await self._store.final_answers(self._last_turn)).items():
            self._final_answers.setdefault(turn, (chats[turn], count))
        self._stale_epochs |= find_stale_epochs(await self._store.epochs(self._last_turn))

    async def end_round(self, talks: Sequence[DrillChat]) -> None:
        """From now on nobody asks anything of these conversations."""
        self._last_turn = max([self._last_turn, *(turn.id for turn in await self._store.turns(self._last_turn))])
        self._seen_at_round_end |= {talk.chat: len(self._people.seen(talk)) for talk in talks}

    async def _chats(self, since: str = "") -> dict[str, str]:
        return {turn.id: _chat_of_key(turn.key) for turn in await self._store.turns(since)}

    # ── at the end ──────────────────────────────────────────────────────────────────────────────────────────

    async def turns(self) -> int:
        return len(await self._store.turns())

    async def findings(self) -> Findings:
        """Everything that must be told, by the name of its count."""
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

    def _describe_chat(self, chat: str) -> str:
        """A chat, and where the gateway was killed in its round."""
        return f"{chat} (killed {self._kill_points[chat]})" if chat in self._kill_points else chat

    async def _find_lost(self, found: Findings) -> None:
        """Look for the answer to each message that people wrote."""
        received = {each.event_key: each for each in await self._store.messages()}
        states = {turn.id: turn.state for turn in await self._store.turns()}
        replaced = await self._store.cancelled_turns(
            CancelReason.REPLACED
        )  # by a later message: such is the mode of the queue
        given_up = await self._store.cancelled_turns(CancelReason.SUPERSEDED) if self._may_give_up else set()
        expired = await self._store.turns_with_expired_replies()
        for written in self._people.written:
            message, chat = received.get(written.event_key), self._describe_chat(written.talk.chat)
            turn = message.turn if message and message.turn else ""
            if turn in replaced or self._is_answered(written, turn, states.get(turn, "")):
                continue
            if turn in expired:
                found[UNKNOWN].append(f"{chat}: an answer was cut off and not sent again, as configured")
            elif turn in given_up and self._has_reply_about(written, f"{turn}."):
                self.given_up += 1
            else:
                state = message.state if message else "not stored"
                found["lost"].append(f"{chat}: {written.mark} never came; its message is {state}")

    def _is_answered(self, written: WrittenMessage, turn: str, state: str) -> bool:
        """An answer has the mark; one that says why there is none has at least the name of its turn."""
        marked = any(written.mark in each.text for each in self._people.seen(written.talk))
        return marked or (state == "failed" and self._has_reply_about(written, f"{turn}:"))

    def _has_reply_about(self, written: WrittenMessage, about: str) -> bool:
        return any(each.key.startswith(about) for each in self._people.seen(written.talk))

    def _missing_exit_reports(self) -> Iterator[str]:
        for talk in self._chats_audited:
            for told in talk.told:
                if not any(told in text for text in self._exit_reports(talk)):
                    yield f"{self._describe_chat(talk.chat)}: nobody was told of the end of its process"

    def _repeated_exit_reports(self) -> Iterator[str]:
        """Ends of processes that were told more than once, or though the agent had seen them."""
        for talk in self._chats_audited:
            clean = [text for text in self._exit_reports(talk) if DUPLICATE_MARK not in text]
            if len(clean) > len(talk.told):
                yield (
                    f"{self._describe_chat(talk.chat)}: the end of its process was told "
                    f"{texts.phrases.times(len(clean))}"
                )

    def _exit_reports(self, talk: DrillChat) -> list[str]:
        """What people were told of the end of a process."""
        return [each.text for each in self._people.seen(talk) if "background process" in each.text]

    async def _wrong_notes(self) -> list[str]:
        """Turns whose agent was not told of an interruption before it went on, or was told of none."""
        chats = await self._chats()
        told = find_wrong_notes(await self._store.interruptions())
        return [f"{self._describe_chat(chats[turn])}: {words}" for turn, words in told]

    async def _wrong_epochs(self) -> list[str]:
        chats = await self._chats()
        found = self._stale_epochs | find_stale_epochs(await self._store.epochs())
        return [f"{self._describe_chat(chats[turn])}: {words}" for turn, words in found.items()]

    async def _calls_without_result(self) -> list[str]:
        """Calls that are without a result though their turn has ended, and results of what left no trace."""
        found, ran = [], self.traces.runs_by_key()
        ended = {
            turn.id: _chat_of_key(turn.key) for turn in await self._store.turns() if turn.state in FINAL_STATES
        }
        for call in await self._store.calls():
            if call.turn in ended and call.ended is None:
                found.append(f"{self._describe_chat(ended[call.turn])}: the call {call.key} never had a result")
            elif call.tool in TRACED_TOOLS and call.ended and call.ended.outcome == "ok" and not ran[call.key]:
                found.append(
                    f"{self._describe_chat(ended.get(call.turn, call.turn))}: {call.key} has a result, and never "
                    "ran"
                )
        return found

    def _repeated_calls(self) -> Iterator[str]:
        by_key, by_name = self.traces.runs_by_key(), self.traces.runs_by_name()
        for key, (chat, ran) in self._finished_calls.items():
            if by_key[key] > ran:
                yield f"{self._describe_chat(chat)}: the call {key} was finished, and ran again"
        for talk in self._chats_audited:
            for name in (*talk.once, *talk.commands):
                if by_name[name] > 1:
                    yield f"{self._describe_chat(talk.chat)}: {name} ran {texts.phrases.times(by_name[name])}"

    async def _repeated_answers(self) -> list[str]:
        now = await self._store.final_answers()
        return [
            f"{self._describe_chat(chat)}: the final answer of {turn} was there, and the model was asked again"
            for turn, (chat, count) in self._final_answers.items()
            if now[turn] > count
        ]

    def _duplicate_messages(self) -> Iterator[str]:
        for talk in self._chats_audited:
            clean = [each.text for each in self._people.seen(talk) if DUPLICATE_MARK not in each.text]
            shown = Counter({mark: sum(mark in text for text in clean) for mark in talk.marks})
            others = [text for text in clean if not any(mark in text for mark in talk.marks)]
            shown.update(text.splitlines()[0] for text in others if talk.chat in text)
            for text, count in shown.items():
                if count > 1:
                    yield f"{self._describe_chat(talk.chat)}: {text!r} was shown {texts.phrases.times(count)}"

    async def _unrequested_turns(self) -> list[str]:
        allowed = {talk.chat: talk.turns for talk in self._chats_audited}
        return [
            f"{self._describe_chat(chat)}: {count} turns, and people asked for {allowed.get(chat, 0)}"
            for chat, count in Counter((await self._chats()).values()).items()
            if count > allowed.get(chat, 0)
        ]

    def _late_messages(self) -> Iterator[str]:
        for talk in self._chats_audited:
            seen = self._people.seen(talk)
            for each in seen[self._seen_at_round_end.get(talk.chat, len(seen)) :]:
                yield f"{self._describe_chat(talk.chat)}: {each.text.splitlines()[0]!r} came when all was over"
        for each in self._people.stray_messages({talk.chat for talk in self._chats_audited}):
            yield f"{each.address.chat}: {each.text!r} came, where nobody had written"

    async def _stuck_turns(self) -> list[str]:
        begun = [turn for turn in await self._store.turns() if turn.state not in FINAL_STATES]
        return [
            f"{self._describe_chat(_chat_of_key(turn.key))}: the turn {turn.id} is {turn.state}" for turn in begun
        ]

    async def _unknown_outcomes(self) -> list[str]:
        ran, chats = self.traces.runs_by_key(), await self._chats()
        calls = [
            f"{self._describe_chat(chats[call.turn])}: `{call.tool}` was cut off; the agent was told, and "
            "did not repeat it"
            + (f" (it {'had' if ran[call.key] else 'had not'} begun)" if call.tool in TRACED_TOOLS else "")
            for call in await self._store.calls()
            if call.ended is not None and call.ended.outcome == "unknown"
        ]
        lost = await self._store.lost_commands()
        return [*calls, *(f"nobody knows how `{command}` ended; its chat was told so" for command in lost)]

    def _marked_messages(self) -> Iterator[str]:
        for talk in self._chats_audited:
            for each in self._people.seen(talk):
                if DUPLICATE_MARK in each.text:
                    yield f"{self._describe_chat(talk.chat)}: a message was cut off, and sent again with a mark"
            for _ in self._people.leftover_previews(talk):
                yield (
                    f"{self._describe_chat(talk.chat)}: an answer that was growing was cut off; "
                    "what was shown of it stays"
                )


def _chat_of_key(key: str) -> str:
    return split_session_key(key)[1].chat
