"""One attempt at a turn: the context that its agent works in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

from perdure.agents.api import Reply
from perdure.core import notes
from perdure.core.address import Address, parse_session_key, work_of
from perdure.core.briefing import briefing
from perdure.core.conversation import recalled, views
from perdure.core.delivery import split
from perdure.core.effects import Effect
from perdure.core.journal import (
    Asked,
    Entry,
    Failed,
    Finished,
    Interrupted,
    ModelAsked,
    Noted,
    Record,
    ToolEnded,
    TurnView,
    fold,
)
from perdure.core.messages import Attachment, Button, Pick
from perdure.core.questions import asking_reply, question_name
from perdure.core.queueing import Rules
from perdure.core.recovery import Rule
from perdure.core.text import storable
from perdure.errors import ModelError, TurnMoved, TurnWaits, Unavailable
from perdure.logs import Log
from perdure.runtime.bell import STORE_PAUSE
from perdure.runtime.lease import Lease
from perdure.runtime.previews import LETTING_GO, Shown
from perdure.runtime.typing import Typing
from perdure.store.api import Store
from perdure.store.claims import Claim
from perdure.store.ids import Clock
from perdure.store.outbox import Owed
from perdure.tools.cabinet import Cabinet

log = Log("attempt")


class Attempt:
    """Journals for its agent. While the store takes no writes it waits: nothing runs that is not saved."""

    def __init__(
        self,
        store: Store,
        claim: Claim,
        *,
        lease: Lease,
        clock: Clock,
        steady: Clock,
        max_length: int | None,
        max_tokens: int | None,
        approval_ms: int,
        rules: Rules,
        shown: Shown,
        typing: Typing,
        cabinet: Cabinet,
        changed: Callable[[str], None],
        owes: Callable[[str], None],
    ) -> None:
        self._store = store
        self._row = claim.turn
        self._lease = lease
        self._clock = clock
        self._steady = steady
        self._max_length = max_length
        self._max_tokens = max_tokens  # of a turn that was cut off and goes on by itself
        self._approval_ms = approval_ms
        self._rules = rules
        self._shown = shown
        self._typing = typing
        self._cabinet = cabinet
        self._changed = changed
        self._owes = owes
        self._work = work_of(claim.turn.key)
        self.view = fold(claim.records)
        self.history: Sequence[TurnView] = recalled(views(claim.earlier or ()))
        self._recalled = claim.earlier is not None
        self.began = self.heard = steady()  # when this attempt began, and gave its last sign of life
        self.aside: asyncio.Task[None] | None = None  # what is being said in passing, such as that it goes on
        self.hushed = False  # nothing is said in passing any more
        self.news = claim.more  # somebody may have written; of what another gateway takes in, nobody tells us

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
    def shows(self) -> bool:
        return self._shown.possible

    def show(self, text: str) -> None:
        self.alive()
        self._shown.show(storable(text), self.view.anchor)

    def alive(self) -> None:
        self.heard = self._steady()

    def find(self, file: Attachment) -> str | None:
        place = self._cabinet.find(file.path)
        return None if place is None else str(place)

    async def hide(self) -> None:
        """Show nothing more of a growing answer, and say nothing more in passing: neither follows the answer."""
        self.hushed = True
        self._typing.end()
        await self._shown.stop()
        if self.aside is not None:
            await asyncio.wait({self.aside}, timeout=LETTING_GO)
            self.aside.cancel()

    def hush(self) -> None:
        """Say nothing more in passing, at once: somebody has ended the turn."""
        self.hushed = True
        self._typing.end()
        if self.aside is not None:
            self.aside.cancel()

    async def append(self, *entries: Entry) -> None:
        if any(isinstance(entry, ModelAsked) for entry in entries):
            self._check_cost()
        await self._save(entries, self._files_of(entries))
        await self._lease.confirmed()

    def _files_of(self, entries: Sequence[Entry]) -> list[Owed]:
        """What the results of calls send."""
        return [
            Owed(
                address_of(self.key),
                f"{self.turn}.sends.{entry.call}.{number}",
                (notes.of_work(self._work, file.caption) if file.caption else file.name,),
                self.view.anchor,
                file=file,
            )
            for entry in entries
            if isinstance(entry, ToolEnded)
            for number, file in enumerate(entry.files)
        ]

    async def listen(self) -> None:
        """Let join what waits to be heard; the database is asked only if there may be something."""
        if not self.news and self._store.database.sole:
            return
        self.news = False
        records = await self._joined()
        if records is None:
            raise TurnMoved(f"turn {self.turn} is no longer ours")
        if records:
            self._take_in(records)
            self._changed(self.key)
            log.info("joined", turn=self.turn, key=self.key)
            await self._lease.confirmed()

    async def _joined(self) -> list[Record] | None:
        while True:
            try:
                if not await self._store.queue.steers(self.key):
                    return []
                return await self._store.queue.join(self._row, self._rules, self._clock())
            except Unavailable as error:
                await self._wait_for_store(error)

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        question, until = storable(question), self._clock() + self._approval_ms if approves else 0
        asked = Asked(question, text, tuple(options), approves=approves, until=until)
        words = notes.ask_approval(self._work, text) if approves else notes.ask_here(self._work, text, options)
        parts = split(words, self._max_length)
        name = asking_reply(self.turn, question)
        owed = Owed(address_of(self.key), name, tuple(parts), self.view.anchor, self._buttons(asked))
        self._typing.end()
        await self._save([*also, asked], [owed])
        log.info("asked", turn=self.turn, key=self.key)
        raise TurnWaits(f"turn {self.turn} waits for an answer")

    def _buttons(self, asked: Asked) -> tuple[Button, ...]:
        """One for each option: pressing it says the same as a person who writes."""
        if asked.approves:
            name, verbs = f"{self.turn}.{asked.approves}", ("approve", "deny")
            pairs = zip(asked.options, verbs, strict=True)
            return tuple(Button(label, notes.command(verb, self._work, name)) for label, verb in pairs)
        name = question_name(self.turn, asked.question)
        return tuple(
            Button(option, self._saying(option), Pick(name, number)) for number, option in enumerate(asked.options)
        )

    def _saying(self, option: str) -> str:
        return option if self._work is None else notes.command("answer", self._work, option)

    async def recall(self) -> None:
        """Read the earlier turns of the session, if they were too many to come with the claim."""
        while not self._recalled:
            try:
                records = await self._store.journal.before(self._row.session, self._row.first_seq)
                self.history, self._recalled = recalled(views(records)), True
            except Unavailable as error:
                await self._wait_for_store(error)

    async def brief(self) -> None:
        """Tell the model, once, what was cut off."""
        note = briefing(self.view, self.history)
        if note is not None:
            await self.append(Noted(note))

    async def finish(self, reply: Reply) -> None:
        """The last facts, the end of the turn and its reply, in one transaction."""
        await self.hide()
        await self._save([*reply.closing, Finished(reply.text)], self._owe(reply.text))
        log.info("finished", turn=self.turn, key=self.key)

    async def fail(self, error: str) -> None:
        """The end of the turn, and the sentence that tells of it, in one transaction."""
        await self.hide()
        await self._save([Failed(error)], self._owe(notes.turn_failed(error)))
        log.warning("failed", turn=self.turn, key=self.key, error=error)

    def _check_cost(self) -> None:
        """Recovery ends at its cost limit; what a person or a new message asked for does not."""
        by_itself = self.view.decided is not None and self.view.decided.rule == Rule.RESUME
        if by_itself and self._max_tokens is not None and self.view.tokens >= self._max_tokens:
            raise ModelError(notes.recovery_cost(self.view.tokens, self._max_tokens))

    async def interrupt(self, reason: str) -> bool:
        """Mark the turn as cut off. False: it had ended already."""
        records = await self._store.turns.append(self._row, [Interrupted(reason)], self._clock())
        return records is not None

    def _owe(self, text: str) -> list[Owed]:
        parts = split(notes.of_work(self._work, text), self._max_length)
        if parts == [""]:
            return []
        return [Owed(address_of(self.key), self.turn, tuple(parts), self.view.anchor)]

    async def _save(self, entries: Sequence[Entry], owed: Sequence[Owed] = ()) -> None:
        records = await self._saved(entries, owed)
        if records is None:
            raise TurnMoved(f"turn {self.turn} is no longer ours")
        self._take_in(records)
        (self._owes if owed else self._changed)(self.key)

    def _take_in(self, records: Sequence[Record]) -> None:
        self.alive()
        for record in records:
            self.view.apply(record)

    async def _saved(self, entries: Sequence[Entry], owed: Sequence[Owed]) -> list[Record] | None:
        while True:
            try:
                return await self._store.turns.append(self._row, entries, self._clock(), owed=owed)
            except Unavailable as error:
                await self._wait_for_store(error)

    async def _wait_for_store(self, error: Unavailable) -> None:
        log.warning("waiting_for_store", turn=self.turn, error=error.message)
        self.alive()  # it is the store that hangs, and not the turn
        await asyncio.sleep(STORE_PAUSE)


def address_of(key: str) -> Address:
    return parse_session_key(key)[1]
