"""A random walk: what people and operators do on a stage, and what must be true of it at every quiet moment.

Each message is about a word of its own, so that every line that people see can be told apart.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import Struct, field

from perdure.core.journal import Cancelled, TurnView, fold
from perdure.core.messages import Inbound
from perdure.core.session import Why
from support.recovering import key_of
from support.stage import Stage

CHATS = ("1", "2")
HOURS = 21 * 3600  # until work is stale
_WORD = re.compile(r"w\d+")

# Which act of a person, an operator or the clock may be the reason that a message has no answer.
_ENDED: dict[str, set[str]] = {
    Why.STOPPED: {"stop", "stop all"},
    Why.RESET: {"new"},
    Why.DROPPED: {"drop"},
    Why.SUSPENDED: {"suspend"},
    Why.SUPERSEDED: {"hours"},
}
_NOT_SENT = {"stop", "stop all", "undo", "retry"}
_NOT_BEGUN = {"stop all", "new"}


class Said(Struct):
    """A message of the story."""

    word: str
    id: str  # the platform's
    at: int  # its place in the story
    start: int  # of which gateway it is, in order
    taken: int = 0  # the start of the gateway that took it in; 0: not yet
    blurred: bool = False  # a gateway died about it: nobody knows which one took it in
    ended: tuple[int, int] | None = None  # how many answers it had when an act ended it for good, and which act

    def covers(self, acts: list[tuple[int, str]], kinds: set[str]) -> bool:
        """Whether such an act came behind it."""
        return any(at > self.at and kind in kinds for at, kind in acts)


class Talk(Struct):
    """One chat of the story."""

    said: list[Said] = field(default_factory=list)
    acts: list[tuple[int, str]] = field(default_factory=list)

    def retries(self, since: int) -> int:
        return sum(at > since and kind == "retry" for at, kind in self.acts)


class Walk:
    """The world of one story."""

    def __init__(self) -> None:
        self._log = logging.getLogger("perdure")
        self._level = self._log.level
        self._log.setLevel(logging.CRITICAL)  # or what a thousand gateways say would bury the story
        self._runner = asyncio.Runner()
        self.stage = Stage()
        self._talks = {chat: Talk() for chat in CHATS}
        self._now = 0  # events of the story so far
        self._whole = True  # no check has failed
        self._once: set[str] = set()  # words whose work must not be repeated
        self.act(self._nothing)

    def act(self, event: Callable[[], Awaitable[None]]) -> None:
        """One event of the story, and all that follows from it."""
        self._whole, self._now = False, self._now + 1
        self._runner.run(self._happen(event))
        self._whole = True

    async def _happen(self, event: Callable[[], Awaitable[None]]) -> None:
        if not self.stage.starts:
            await self.stage.start()
        await event()
        await self._settle()
        self._check()

    def close(self) -> None:
        """The end of the story: everything must come to its end too, unless it has failed before."""
        try:
            if self._whole:
                self.act(self.rest)
        finally:
            self._runner.run(self.stage.close())
            self._runner.close()
            self._log.setLevel(self._level)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    async def write(self, chat: str, script: str) -> None:
        word = f"w{self._now}"
        self.stage.bench.stuck.add(word)
        self._once |= {word} if script == "once" else set()
        text = f"say: {word}" if script == "say" else f"{script} {word}\nsay: {word}"
        message = self.stage.platform.write(text, chat=chat)
        self._talks[chat].said.append(Said(word, message, self._now, self.stage.starts))

    async def command(self, chat: str, words: str) -> None:
        talk = self._talks[chat]
        if words in ("stop", "stop all", "new") and self.stage.heeds_at_once:
            self._end_for_good(chat)
        talk.acts.append((self._now, words))
        self.stage.platform.write(f"/{words}", chat=chat)

    def _end_for_good(self, chat: str) -> None:
        """What hangs in a chat will have no answer from now on, unless somebody asks for it again."""
        for said in self._talks[chat].said:
            if said.word in self.stage.bench.at_work:
                said.ended = (self._answered(chat).count(said.word), self._now)

    def _answered(self, chat: str) -> list[str]:
        """What the chat got for its words: whatever else the gateway has to say is more than a word."""
        lines = "\n".join(self.stage.platform.replies(chat)).splitlines()
        return [line for line in lines if _WORD.fullmatch(line)]

    # ── operators, the platform, and time ───────────────────────────────────────────────────────────────────

    async def _nothing(self) -> None: ...

    async def suspend(self, chat: str) -> None:
        self._talks[chat].acts.append((self._now, "suspend"))
        await self.stage.survive(self._suspend(key_of(self.stage.platform, chat)))

    async def _suspend(self, key: str) -> None:
        session = await self.stage.store.sessions.current(key)
        if session is not None:
            await self.stage.gateway.operators.suspend(session)

    async def wait(self) -> None:
        for talk in self._talks.values():
            talk.acts.append((self._now, "hours"))
        self.stage.clock.move(HOURS)

    async def rest(self) -> None:
        """Everything comes to its end, and what was left without an answer has its reason."""
        await self.stage.spare()
        await self.stage.reach(True)
        await self.stage.let_go()
        await self._settle()
        for chat, talk in self._talks.items():
            for said in talk.said:
                answered = said.word in self._answered(chat)
                assert answered or await self._excused(chat, talk, said), f"no answer: {self._story(chat, said)}"

    async def _settle(self) -> None:
        """Wait until nothing moves, and remember which gateway has taken in what."""
        await self.stage.settle()
        for talk in self._talks.values():
            for said in talk.said:
                if not said.taken and said.id in self.stage.platform.acknowledged:
                    said.taken = self.stage.starts
                    said.blurred = said.start != said.taken

    # ── what must be true ───────────────────────────────────────────────────────────────────────────────────

    def _check(self) -> None:
        """At every quiet moment: nothing is answered twice, out of its place, or after it was ended for good."""
        for chat, talk in self._talks.items():
            seen = self._answered(chat)
            for said in talk.said:
                answers, again = seen.count(said.word), talk.retries(said.at)
                assert answers <= 1 + again, f"twice: {self._story(chat, said)}"
                assert said.word not in self._once or self.stage.bench.ran[said.word] <= 1 + again, "done twice"
                if said.ended is not None:
                    before, act = said.ended
                    assert answers <= before + talk.retries(act), f"came back: {self._story(chat, said)}"
            self._check_order(chat, talk, seen)

    def _check_order(self, chat: str, talk: Talk, seen: list[str]) -> None:
        """The order is that of the chat; only what came after a cut joins, at once, what was cut off (B49)."""
        first = [said for word in dict.fromkeys(seen) for said in talk.said if said.word == word]
        for place, later in enumerate(first):
            for earlier in first[place + 1 :]:
                unsure = later.blurred or earlier.blurred or talk.retries(earlier.at)
                if not unsure and earlier.at < later.at:
                    assert later.taken > earlier.taken, f"out of order: {self._story(chat, earlier)}"

    async def _excused(self, chat: str, talk: Talk, said: Said) -> bool:
        """Whether somebody has taken a message back, or the turn that it was in."""
        store = self.stage.store
        rows = await store.database.read(
            lambda tx: tx.all(
                "SELECT state, turn, session, body FROM inbox WHERE key = :key AND kind IN ('message', 'wish') "
                "ORDER BY position, id",
                key=key_of(self.stage.platform, chat),
            )
        )
        mine = [row for row in rows if said.word in msgspec.json.decode(row[3], type=Inbound).text.split()]
        assert mine, f"lost: {self._story(chat, said)}"
        state, turn, _, _ = mine[-1]
        if turn is None:
            return state == "withdrawn" and said.covers(talk.acts, _NOT_BEGUN)
        row = await store.turns.get(turn)
        assert row is not None
        view = fold(await store.journal.of_turn(row.session, turn))
        if view.ended is None:
            held = view.decided is not None and view.decided.rule == "stale"
            return held and said.covers(talk.acts, {"hours"})
        unsent = [reply.state for reply in await store.outbox.of_turn(turn)]
        return said.covers(talk.acts, _why(view, unsent))

    def _story(self, chat: str, said: Said) -> str:
        """All that is known of a message, for whoever reads of it."""
        talk = self._talks[chat]
        return f"{said} in chat {chat}: acts {talk.acts}, people see {self.stage.platform.replies(chat)}"


def _why(view: TurnView, unsent: Sequence[str]) -> set[str]:
    """The acts that explain why nobody got the answer of a turn that has ended."""
    if isinstance(view.ended, Cancelled):
        return _ENDED.get(view.ended.why, set())
    return _NOT_SENT if "withdrawn" in unsent else set()
