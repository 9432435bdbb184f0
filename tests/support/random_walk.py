"""A random walk of people and operators with a gateway, and its invariants at every idle moment.

Each message has a word of its own, so that every line that people see can be attributed.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct, field

from perdure.core.journal import TurnCancelled, TurnView, fold
from perdure.core.messages import Inbound
from perdure.core.states import CancelReason
from support.gateway_harness import GatewayHarness
from support.recovery import key_of

CHATS = ("1", "2")
STALE_SECONDS = 21 * 3600  # until work is stale
_WORD_PATTERN = re.compile(r"w\d+")

# The acts of a person, an operator or the clock that explain a message without an answer.
_ACTIONS_BY_CANCEL_REASON: dict[str, set[str]] = {
    CancelReason.STOPPED: {"stop", "stop all"},
    CancelReason.RESET: {"new"},
    CancelReason.DROPPED: {"drop"},
    CancelReason.SUSPENDED: {"suspend"},
    CancelReason.SUPERSEDED: {"hours"},
}
_ACTIONS_THAT_WITHDRAW = {"stop", "stop all", "undo", "retry"}
_ACTIONS_BEFORE_TURN = {"stop all", "new"}


class WalkMessage(Struct):
    """A message of the walk."""

    word: str
    id: str  # the platform's
    at: int  # its position in the walk
    start: int  # the number of its gateway
    taken_by_start: int = 0  # the number of the gateway that stored it; 0: none so far
    taken_by_unknown: bool = False  # a gateway crashed while storing it: the number of its gateway is unknown
    ended: tuple[int, int] | None = None  # its number of answers when an act ended it, and the act

    def covers(self, acts: list[tuple[int, str]], kinds: set[str]) -> bool:
        """Tell whether such an act came after the message."""
        return any(at > self.at and kind in kinds for at, kind in acts)


class ChatHistory(Struct):
    """One chat of the walk."""

    messages: list[WalkMessage] = field(default_factory=list)
    actions: list[tuple[int, str]] = field(default_factory=list)

    def retries(self, since: int) -> int:
        return sum(at > since and kind == "retry" for at, kind in self.actions)


class RandomWalk:
    """The gateway, the chats and the events of one walk."""

    def __init__(self) -> None:
        self._log = logging.getLogger("perdure")
        self._level = self._log.level
        self._log.setLevel(logging.CRITICAL)  # the log of a thousand gateways would bury the report
        self._runner = asyncio.Runner()
        self.harness = GatewayHarness()
        self._chats = {chat: ChatHistory() for chat in CHATS}
        self._event_count = 0  # events of the walk so far
        self._is_intact = True  # no check has failed
        self._once_words: set[str] = set()  # words of `once` steps
        self.run_event(self._nothing)

    def run_event(self, event: Callable[[], Awaitable[None]]) -> None:
        """Run one event of the walk, and wait until the gateway is idle."""
        self._is_intact, self._event_count = False, self._event_count + 1
        self._runner.run(self._apply(event))
        self._is_intact = True

    async def _apply(self, event: Callable[[], Awaitable[None]]) -> None:
        if not self.harness.starts:
            await self.harness.start()
        await event()
        await self._settle()
        self._check()

    def close(self) -> None:
        """End the walk: everything must be finished, unless a check has failed before."""
        try:
            if self._is_intact:
                self.run_event(self.settle_everything)
        finally:
            self._runner.run(self.harness.close())
            self._runner.close()
            self._log.setLevel(self._level)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    async def write(self, chat: str, script: str) -> None:
        word = f"w{self._event_count}"
        self.harness.agent_harness.stuck.add(word)
        self._once_words |= {word} if script == "once" else set()
        text = f"say: {word}" if script == "say" else f"{script} {word}\nsay: {word}"
        message = self.harness.platform.write(text, chat=chat)
        self._chats[chat].messages.append(WalkMessage(word, message, self._event_count, self.harness.starts))

    async def command(self, chat: str, words: str) -> None:
        talk = self._chats[chat]
        if words in ("stop", "stop all", "new") and self.harness.obeys_at_once:
            self._mark_ended(chat)
        talk.actions.append((self._event_count, words))
        self.harness.platform.write(f"/{words}", chat=chat)

    def _mark_ended(self, chat: str) -> None:
        """Record that the hanging work of a chat gets no answer, unless somebody asks for it again."""
        for said in self._chats[chat].messages:
            if said.word in self.harness.agent_harness.running_steps:
                said.ended = (self._answered_words(chat).count(said.word), self._event_count)

    def _answered_words(self, chat: str) -> list[str]:
        """Return the answers in a chat that consist of one word."""
        lines = "\n".join(self.harness.platform.replies(chat)).splitlines()
        return [line for line in lines if _WORD_PATTERN.fullmatch(line)]

    # ── operators, the platform, and time ───────────────────────────────────────────────────────────────────

    async def _nothing(self) -> None: ...

    async def suspend(self, chat: str) -> None:
        self._chats[chat].actions.append((self._event_count, "suspend"))
        await self.harness.run_tolerating_crash(self._suspend(key_of(self.harness.platform, chat)))

    async def _suspend(self, key: str) -> None:
        session = await self.harness.store.sessions.current(key)
        if session is not None:
            await self.harness.gateway.operator_verbs.suspend(session)

    async def let_hours_pass(self) -> None:
        for talk in self._chats.values():
            talk.actions.append((self._event_count, "hours"))
        self.harness.clock.move(STALE_SECONDS)

    async def settle_everything(self) -> None:
        """Finish everything, and check that every message without an answer has a reason."""
        await self.harness.disarm()
        await self.harness.set_reachable(True)
        await self.harness.release_steps()
        await self._settle()
        for chat, talk in self._chats.items():
            for said in talk.messages:
                answered = said.word in self._answered_words(chat)
                assert answered or await self._is_excused(chat, talk, said), (
                    f"no answer: {self._describe(chat, said)}"
                )

    async def _settle(self) -> None:
        """Wait until the gateway is idle, and record which gateway has stored which message."""
        await self.harness.wait_until_quiet()
        for talk in self._chats.values():
            for said in talk.messages:
                if not said.taken_by_start and said.id in self.harness.platform.acknowledged:
                    said.taken_by_start = self.harness.starts
                    said.taken_by_unknown = said.start != said.taken_by_start

    # ── what must be true ───────────────────────────────────────────────────────────────────────────────────

    def _check(self) -> None:
        """Check that nothing is answered twice, out of order, or after it was ended."""
        for chat, talk in self._chats.items():
            seen = self._answered_words(chat)
            for said in talk.messages:
                answers, again = seen.count(said.word), talk.retries(said.at)
                assert answers <= 1 + again, f"twice: {self._describe(chat, said)}"
                assert (
                    said.word not in self._once_words
                    or self.harness.agent_harness.run_counts[said.word] <= 1 + again
                ), "done twice"
                if said.ended is not None:
                    before, act = said.ended
                    assert answers <= before + talk.retries(act), f"came back: {self._describe(chat, said)}"
            self._check_order(chat, talk, seen)

    def _check_order(self, chat: str, talk: ChatHistory, seen: list[str]) -> None:
        """Check the order of the chat; only messages after an interruption join its turn at once (B49)."""
        first = [said for word in dict.fromkeys(seen) for said in talk.messages if said.word == word]
        for place, later in enumerate(first):
            for earlier in first[place + 1 :]:
                unsure = later.taken_by_unknown or earlier.taken_by_unknown or talk.retries(earlier.at)
                if not unsure and earlier.at < later.at:
                    assert later.taken_by_start > earlier.taken_by_start, (
                        f"out of order: {self._describe(chat, earlier)}"
                    )

    async def _is_excused(self, chat: str, talk: ChatHistory, said: WalkMessage) -> bool:
        """Tell whether somebody has taken back a message or its turn."""
        store = self.harness.store
        rows = await store.database.read(
            lambda tx: tx.all(
                "SELECT state, turn, session, body FROM inbox WHERE key = :key AND kind IN ('message', 'wish') "
                "ORDER BY position, id",
                key=key_of(self.harness.platform, chat),
            )
        )
        mine = [row for row in rows if said.word in msgspec.json.decode(row[3], type=Inbound).text.split()]
        assert mine, f"lost: {self._describe(chat, said)}"
        state, turn, _, _ = mine[-1]
        if turn is None:
            return state == "withdrawn" and said.covers(talk.actions, _ACTIONS_BEFORE_TURN)
        row = await store.turns.get(turn)
        assert row is not None
        view = fold(await store.journal.of_turn(row.session, turn))
        if view.ended is None:
            held = view.last_decision is not None and view.last_decision.rule == "stale"
            return held and said.covers(talk.actions, {"hours"})
        unsent = [reply.state for reply in await store.outbox.of_turn(turn)]
        return said.covers(talk.actions, _actions_that_explain(view, unsent))

    def _describe(self, chat: str, said: WalkMessage) -> str:
        """Describe a message for a failure report."""
        talk = self._chats[chat]
        return f"{said} in chat {chat}: acts {talk.actions}, people see {self.harness.platform.replies(chat)}"


def _actions_that_explain(view: TurnView, unsent: Sequence[str]) -> set[str]:
    """The acts that explain why nobody got the answer of a turn that has ended."""
    if isinstance(view.ended, TurnCancelled):
        return _ACTIONS_BY_CANCEL_REASON.get(view.ended.why, set())
    return _ACTIONS_THAT_WITHDRAW if "withdrawn" in unsent else set()
