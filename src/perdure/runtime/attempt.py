"""One attempt at a turn: the context that its agent works in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NoReturn

from perdure.agents.api import Reply
from perdure.core import notes
from perdure.core.address import Address, parse_session_key
from perdure.core.briefing import briefing
from perdure.core.conversation import views
from perdure.core.delivery import split
from perdure.core.journal import (
    Asked,
    Entry,
    Failed,
    Finished,
    Interrupted,
    ModelAsked,
    Noted,
    Record,
    TurnView,
    fold,
)
from perdure.core.messages import Button
from perdure.core.recovery import Rule
from perdure.errors import ModelError, TurnMoved, TurnWaits, Unavailable
from perdure.logs import Log
from perdure.runtime.lease import Lease
from perdure.runtime.previews import Shown
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.outbox import Owed
from perdure.store.turns import Claim

log = Log("attempt")

STORE_PAUSE = 1.0  # seconds between tries while the store takes no writes


class Attempt:
    """Journals for its agent. While the store takes no writes it waits: nothing runs that is not saved."""

    def __init__(
        self,
        store: Store,
        claim: Claim,
        *,
        lease: Lease,
        clock: Clock,
        max_length: int | None,
        max_tokens: int | None,
        approval_ms: int,
        shown: Shown,
        changed: Callable[[str], None],
        owes: Callable[[str], None],
    ) -> None:
        self._store = store
        self._row = claim.turn
        self._lease = lease
        self._clock = clock
        self._max_length = max_length
        self._max_tokens = max_tokens  # of a turn that was cut off and goes on by itself
        self._approval_ms = approval_ms
        self._shown = shown
        self._changed = changed
        self._owes = owes
        self.view = fold(claim.records)
        self.history: Sequence[TurnView] = ()

    @property
    def turn(self) -> str:
        return self._row.id

    @property
    def key(self) -> str:
        return self._row.key

    @property
    def shows(self) -> bool:
        return self._shown.possible

    def show(self, text: str) -> None:
        self._shown.show(text, self.view.anchor)

    async def hide(self) -> None:
        """Show nothing more of a growing answer."""
        await self._shown.stop()

    async def append(self, *entries: Entry) -> None:
        if any(isinstance(entry, ModelAsked) for entry in entries):
            self._check_cost()
        await self._save(entries)
        await self._lease.confirmed()

    async def ask(
        self, question: str, text: str, options: Sequence[str] = (), *also: Entry, approves: str = ""
    ) -> NoReturn:
        until = self._clock() + self._approval_ms if approves else 0
        asked = Asked(question, text, tuple(options), approves=approves, until=until)
        buttons = tuple(Button(option, option) for option in options)
        if approves:
            words = zip(options, ("approve", "deny"), strict=True)
            buttons = tuple(Button(label, f"/{word} {self.turn}.{approves}") for label, word in words)
        owed = Owed(
            address_of(self.key),
            f"{self.turn}.asks.{question}",
            (text if approves else notes.question(text, options),),
            self.view.anchor,
            buttons,
        )
        await self._save([*also, asked], [owed])
        log.info("asked", turn=self.turn, key=self.key)
        raise TurnWaits(f"turn {self.turn} waits for an answer")

    async def recall(self) -> None:
        """Read the earlier turns of the session."""
        while True:
            try:
                self.history = views(await self._store.journal.before(self._row.session, self._row.first_seq))
                return
            except Unavailable as error:
                log.warning("waiting_for_store", turn=self.turn, error=error.message)
                await asyncio.sleep(STORE_PAUSE)

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
        parts = split(text, self._max_length)
        if parts == [""]:
            return []
        return [Owed(address_of(self.key), self.turn, tuple(parts), self.view.anchor)]

    async def _save(self, entries: Sequence[Entry], owed: Sequence[Owed] = ()) -> None:
        records = await self._saved(entries, owed)
        if records is None:
            raise TurnMoved(f"turn {self.turn} is no longer ours")
        for record in records:
            self.view.apply(record)
        (self._owes if owed else self._changed)(self.key)

    async def _saved(self, entries: Sequence[Entry], owed: Sequence[Owed]) -> list[Record] | None:
        while True:
            try:
                return await self._store.turns.append(self._row, entries, self._clock(), owed=owed)
            except Unavailable as error:
                log.warning("waiting_for_store", turn=self.turn, error=error.message)
                await asyncio.sleep(STORE_PAUSE)


def address_of(key: str) -> Address:
    return parse_session_key(key)[1]
