"""What two gateways do to one chat at the same time, and what must hold whatever the order of their statements."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import psycopg
from msgspec import Struct
from psycopg import sql

from perdure.core.journal import ModelAsked, QuestionAsked, TurnFinished, fold
from perdure.core.messages import Inbound, Pick, Sender, question_id
from perdure.core.states import FINAL_STATES
from perdure.store import answers, session_verbs
from perdure.store.api import Store
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.runs import Instance
from perdure.store.transitions import Turn
from support.interleaving import Interleaver, Operation, Switches
from support.store_gateway import DatabaseLocation, StoreGateway, chat_address, everybody_may_join, key_of

ADA = Sender("ada", "Ada")
STATES = ("idle", "running", "waiting", "owed")


class ChatUnderTest(Struct, frozen=True):
    """A chat of its own for each order: its holder has a turn there and has died, or is about to."""

    name: str
    holder: str  # the run that had the chat, and still writes
    runs: tuple[str, str]  # the two that live
    turn: Turn | None
    owed: OutboxDelivery | None

    @property
    def key(self) -> str:
        return key_of(self.name)


# By name: what the one of two gateways (0 or 1) does.
OPERATIONS: dict[str, Callable[[ChatUnderTest, int], Operation]] = {}


def operation(make: Callable[[ChatUnderTest, int], Operation]) -> Callable[[ChatUnderTest, int], Operation]:
    OPERATIONS[make.__name__] = make
    return make


@operation
def claim(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        found: Claim | None = await store.turns.claim(chat.key, chat.runs[who], 9, may_join=everybody_may_join)
        return found is not None

    return run


@operation
def take_over(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        if chat.turn is None:
            return False
        return await store.turns.take_over(chat.turn.id, chat.key, "lease_lost", chat.runs[who], 9) is not None

    return run


@operation
def release(chat: ChatUnderTest, who: int) -> Operation:
    """The holder drains: others may have its idle chats."""

    async def run(store: Store) -> None:
        await store.runs.start_draining(chat.holder)

    return run


@operation
def append(chat: ChatUnderTest, who: int) -> Operation:
    """The holder, dead or alive, writes a fact."""

    async def run(store: Store) -> bool:
        return chat.turn is not None and bool(await store.turns.append(chat.turn, [ModelAsked(1, "m")], 9))

    return run


@operation
def finish(chat: ChatUnderTest, who: int) -> Operation:
    """The holder, dead or alive, ends its turn with an answer."""

    async def run(store: Store) -> bool:
        if chat.turn is None:
            return False
        reply = OutboxReply(chat_address(chat.name), chat.turn.id, ("done",))
        return bool(await store.turns.append(chat.turn, [TurnFinished("done")], 9, replies=[reply]))

    return run


@operation
def send(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        return chat.owed is not None and await store.outbox.start_sending(chat.owed, chat.runs[who], 9)

    return run


@operation
def answer(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        transaction = answers.answer_question(chat.key, ADA, f"words {who}")
        return await store.database.write(transaction, key=chat.key, at=9)

    return run


@operation
def press(chat: ChatUnderTest, who: int) -> Operation:
    """A button under the question is pressed, and the platform tells this gateway."""

    async def run(store: Store) -> bool:
        if chat.turn is None:
            return False
        pick = Pick(question_id(chat.turn.id, "q"), 0)
        inbound = Inbound(
            chat_address(chat.name), f"{chat.name} press {who}", ADA, "left", kind="button", pick=pick
        )
        stored = await store.answers.answer_by_button(
            inbound,
            pick,
            "",
            chat.key,
            9,
            resolve_key=lambda tx: chat.key,
            refuse=lambda tx: None,
            may_join=everybody_may_join,
        )
        return stored is not None and stored.fresh

    return run


@operation
def stop(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        done = await store.database.write(session_verbs.stop(chat.key, None), key=chat.key, at=9)
        return done.turn is not None

    return run


@operation
def erase(chat: ChatUnderTest, who: int) -> Operation:
    async def run(store: Store) -> bool:
        session = await store.sessions.current(chat.key)
        if session is None or await store.erasure.begin(session.id, 9) is None:
            return False
        return await store.erasure.finish(session.id, 9) is not None

    return run


class OrderChecker:
    """Runs pairs of operations in every order asked for, and compares with the two orders one after the other."""

    def __init__(self, interleaver: Interleaver, one: StoreGateway, two: StoreGateway) -> None:
        self._interleaver = interleaver
        self._store = one.store
        self._gateway = one
        self._runs = (one.run, two.run)
        self._numbers = itertools.count(1)
        self.broken: list[str] = []  # what one order of the statements gave, and the two whole ones do not

    async def check_pair(self, names: tuple[str, str], state: str, every: tuple[int, int]) -> int:
        """Check a pair in every n-th order with one switch, and with two (0: none); return how many there were.

        A pair of which one can do nothing in that state, whatever the other does, has no orders.
        """
        serial, counts, done = [], (0, 0), [False, False]
        for first in (0, 1):
            outcome, counts = await self._outcome(names, state, Switches(first))
            serial.append(outcome)
            done = [before or result is not False for before, result in zip(done, outcome[0], strict=True)]
        orders = _orders(counts, every) if all(done) else []
        for order in orders:
            outcome, _ = await self._outcome(names, state, order)
            if outcome not in serial:
                self.broken.append(
                    f"{names} in a chat that is {state}: the order {order} gives {outcome}, "
                    f"and one after the other they give {serial}"
                )
        return len(orders)

    async def _outcome(self, names: tuple[str, str], state: str, order: Switches) -> tuple[Any, tuple[int, int]]:
        chat = await self._prepare(state)
        operations = [OPERATIONS[name](chat, who) for who, name in enumerate(names)]
        done = self._interleaver.run(operations, order)
        return (done.results, await self._describe(chat)), done.statements

    async def _prepare(self, state: str) -> ChatUnderTest:
        """Make a chat whose holder has died in the given state."""
        name, gateway, store = f"c{next(self._numbers)}", self._gateway, self._store
        started = await store.runs.begin(Instance(f"dead {name}"), "0")
        turn, owed = None, None
        await gateway.receives("hello", chat_name=name, id=f"{name} hello")
        if state != "idle":
            begun = await store.turns.claim(key_of(name), started.run, 1, may_join=everybody_may_join)
            assert begun is not None
            turn = begun.turn
        if state == "waiting" and turn is not None:
            await store.turns.append(turn, [QuestionAsked("q", "Which way?", ("left",))], 2)
        if state == "owed" and turn is not None:
            reply = OutboxReply(chat_address(name), turn.id, ("done",))
            await store.turns.append(turn, [TurnFinished("done")], 2, replies=[reply])
            [owed] = await store.outbox.of_turn(turn.id)
        if state != "running":
            await gateway.receives("more", chat_name=name, id=f"{name} more")
        await store.runs.end_silent({started.run: 0})
        return ChatUnderTest(name, started.run, self._runs, turn, owed)

    async def _describe(self, chat: ChatUnderTest) -> dict[str, Any]:
        """Return all that is stored of a chat, without names, times and numbers; check what must always hold."""
        query = self._gateway.query
        names: dict[str, int | str] = {run: number for number, run in enumerate(self._runs)}
        names |= {chat.holder: "holder"}
        turns = await query(
            "SELECT id, state, epoch, session FROM turns WHERE key = :key ORDER BY id", key=chat.key
        )
        leases = await query("SELECT run, epoch, generation FROM leases WHERE key = :key", key=chat.key)
        journals = []
        for turn, state, epoch, session in turns:
            records = await self._store.journal.of_turn(session, turn)
            assert fold(records).state.value == state, "a turn's row is the fold of its journal"
            assert all(epoch <= lease[1] for lease in leases), "a lease fences all that came before it"
            journals.append((state, tuple(record.entry.kind for record in records)))
        inbox = await query("SELECT kind, state, turn FROM inbox WHERE key = :key ORDER BY position", key=chat.key)
        outbox = await query("SELECT reply, state, run FROM outbox WHERE key = :key ORDER BY id", key=chat.key)
        order = {turn[0]: place for place, turn in enumerate(turns)}
        idle = all(turn[1] in FINAL_STATES for turn in turns)
        return {
            # Who has an idle chat means nothing: whoever claims it next takes it.
            "leases": [] if idle else [(names.get(run), generation) for run, _, generation in leases],
            "turns": journals,
            "inbox": [(kind, state, order.get(turn)) for kind, state, turn in inbox],
            "outbox": [(state, names.get(run)) for _, state, run in outbox],
        }


def _orders(counts: tuple[int, int], every: tuple[int, int]) -> list[Switches]:
    """Return every n-th order of two lists of statements with one switch, and with two (0: none of them)."""
    once = [Switches(first, (after,)) for first in (0, 1) for after in range(1, counts[first])]
    twice = [
        Switches(first, (after, then))
        for first in (0, 1)
        for after in range(1, counts[first])
        for then in range(1, counts[1 - first])
    ]
    return once[:: every[0]] + (twice[:: every[1]] if every[1] else [])


async def check_all_pairs(url: str, folder: Path, state: str, every: tuple[int, int]) -> None:
    """Check every pair of operations in chats of one state, in every n-th order with one switch, and with two."""
    with psycopg.connect(url, autocommit=True) as connection:  # a lost write matters to nobody here
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(name))
    place, orders = DatabaseLocation(url, folder), 0
    one, two = await StoreGateway(place, "one").open(), await StoreGateway(place, "two").open()
    try:
        with Interleaver(url) as interleaver:
            checker = OrderChecker(interleaver, one, two)
            for pair in combinations_with_replacement(OPERATIONS, 2):
                orders += await checker.check_pair(pair, state, every)
    finally:
        await one.crash()
        await two.crash()
    print(f"{orders} orders in a chat that is {state}")
    assert orders, "no order was tried"
    assert not checker.broken, "\n".join(checker.broken)
