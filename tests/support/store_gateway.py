"""A gateway reduced to its store calls: an open database and a run, which can stop, crash and start again."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import msgspec
from msgspec import Struct

from perdure.core.address import Address, session_key
from perdure.core.exit_report import GatewayLaunch
from perdure.core.journal import (
    Entry,
    JournalRecord,
    ModelAnswered,
    RecoveryDecided,
    ToolCall,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnView,
    decode_entry,
    fold,
)
from perdure.core.messages import Inbound, Sender, Stored
from perdure.core.recovery.decision import RecoveryChoice
from perdure.core.states import TurnState
from perdure.store.api import Store, open_database
from perdure.store.claims import Claim
from perdure.store.database import Database, Row, Tx
from perdure.store.ids import Clock, wall_clock
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.run_services import RunCapabilities
from perdure.store.runs import Instance
from perdure.store.transitions import Turn
from perdure.store.turn_rights import Beginner

T = TypeVar("T")

PLATFORM = "web"
TABLES = (
    "runs",
    "run_services",
    "receiving_leases",
    "sessions",
    "leases",
    "turns",
    "journal",
    "inbox",
    "outbox",
    "previews",
    "goals",
    "attachments",
    "file_contents",
    "file_chunks",
    "people",
    "pairings",
    "pair_tries",
    "logins",
    "processes",
    "erased",
)


def everybody_may_join(_tx: Tx, _key: str, _beginner: Beginner | None, _sender: Sender) -> bool:
    """The rule of stores that know no people: whoever writes may add to any turn."""
    return True


def chat_address(name: str = "c1", thread: str | None = None) -> Address:
    """An address by the name of its chat."""
    return Address(PLATFORM, "dm", name, thread)


def key_of(name: str = "c1") -> str:
    """The session key of the chat of that name."""
    return session_key("main", chat_address(name))


def message(text: str, *, chat_name: str = "c1", id: str | None = None) -> Inbound:  # noqa: A002 reason: reads best
    """A message as a platform hands it over; its id is its text unless another is given."""
    return Inbound(chat_address(chat_name), id or text, Sender("ada", "Ada"), text)


def answer_with_calls(*calls: str, step: int = 1) -> ModelAnswered:
    """A model's answer that wishes these tool calls."""
    return ModelAnswered(step, "", tuple(ToolCall(call, "look", {"at": call}) for call in calls), "tool_calls")


class DatabaseLocation(Struct, frozen=True):
    """The URL of a database, and a folder for the homes of its gateways."""

    url: str
    folder: Path

    @property
    def shared(self) -> bool:
        """Whether several gateways may have it open at once."""
        return self.url.startswith("postgresql")

    def home(self, instance: str) -> Path:
        """The home of one gateway; the home of the only one is the folder itself."""
        return self.folder / instance if self.shared else self.folder


class InboxMessage(Struct, frozen=True):
    """A message in the inbox, and the turn that took it."""

    chat: str
    text: str
    turn: str | None


class DatabaseSnapshot(Struct, frozen=True):
    """The turns, the journal, the inbox and the outbox at one moment, each in its order."""

    turns: list[Turn]
    journal: dict[str, list[JournalRecord]]
    inbox: list[InboxMessage]
    outbox: list[OutboxDelivery]


class StoreConnection:
    """A run of a gateway on an open database, and direct access to the tables.

    Its clock ticks once per call of `now`, so that no two facts have the same time.
    """

    def __init__(self, place: DatabaseLocation, instance: str = "one") -> None:
        self.place = place
        self.instance = instance
        self.run = ""
        self.clock: Clock = wall_clock  # the store makes ids by this clock
        self._ticks = itertools.count(1_000)
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, f"gateway {self.instance} is not open"
        return self._store

    def now(self) -> int:
        return next(self._ticks)

    async def open(
        self,
        wrap: Callable[[Database], Database] = lambda database: database,
        launch: GatewayLaunch | None = None,
        capabilities: RunCapabilities | None = None,
    ) -> Self:
        """Open the database and begin a run, as the supervisor's launch if there is one."""
        home = self.place.home(self.instance)
        database = await open_database(self.place.url, home=home, clock=self.clock)
        self._store = Store(wrap(database))
        started = await self.store.runs.begin(Instance(self.instance), "0", launch, capabilities)
        self.run = started.run
        return self

    async def stop(self) -> None:
        """End the run cleanly, and close."""
        await self.store.runs.end(self.run)
        await self.crash()

    async def crash(self) -> None:
        """Close the database without recording the end of the run."""
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def reopen(self, *, clean: bool = False) -> None:
        """Begin a new run of the same gateway, after a crash or after a clean stop."""
        await (self.stop() if clean else self.crash())
        await self.open()

    # ── tables ──────────────────────────────────────────────────────────────────────────────────────────────

    async def view(self, turn: Turn) -> TurnView:
        """Fold the journal of a turn."""
        return fold(await self.store.journal.of_turn(turn.session, turn.id))

    async def turn_row(self, turn: Turn) -> Turn:
        found = await self.store.turns.get(turn.id)
        assert found is not None, f"no turn {turn.id}"
        return found

    async def query(self, sql: str, **values: Any) -> list[Row]:
        return await self.store.database.read(lambda tx: tx.all(sql, **values))

    async def all_rows(self, *, but: Sequence[str] = ()) -> dict[str, list[Row]]:
        """Return every row of every table, to compare before and after."""
        return await self.store.database.read(
            lambda tx: {
                table: sorted(tx.all(f"SELECT * FROM {table}"), key=repr) for table in TABLES if table not in but
            }
        )

    async def snapshot(self) -> DatabaseSnapshot:
        return await self.store.database.read(_snapshot)

    async def execute_sql(self, sql: str, **values: Any) -> int:
        """Change a table directly, past the store."""
        return await self.store.database.write(lambda tx: tx.run(sql, **values))


class StoreGateway(StoreConnection):
    """The calls of a gateway on its store: receive, claim, append, finish and deliver."""

    async def receives(self, text: str, *, chat_name: str = "c1", id: str | None = None) -> Stored:  # noqa: A002
        inbound = message(text, chat_name=chat_name, id=id)
        return await self.store.inbox.receive(
            inbound, f"raw {text}", key_of(chat_name), self.now(), may_join=everybody_may_join
        )

    async def claims(self, chat_name: str = "c1") -> Claim | None:
        return await self.store.turns.claim(key_of(chat_name), self.run, self.now(), may_join=everybody_may_join)

    async def begins_turn(self, text: str, *, chat_name: str = "c1") -> Turn:
        """Receive a message and claim its turn."""
        await self.receives(text, chat_name=chat_name)
        claim = await self.claims(chat_name)
        assert claim is not None, f"the turn of {text!r} could not be claimed"
        return claim.turn

    async def appends(self, turn: Turn, *entries: Entry) -> list[JournalRecord] | None:
        return await self.store.turns.append(turn, entries, self.now())

    async def finishes_turn(self, turn: Turn, *parts: str, chat_name: str = "c1") -> list[JournalRecord] | None:
        """Finish a turn, with a reply of these parts."""
        owed = [OutboxReply(chat_address(chat_name), turn.id, parts)] if parts else []
        return await self.store.turns.append(turn, [TurnFinished(" ".join(parts))], self.now(), replies=owed)

    async def delivers_final_answer(self, turn: Turn, *parts: str) -> list[JournalRecord] | None:
        """End an interrupted turn whose answer was written, as the recoverer does: with its decision."""
        entries = [
            RecoveryDecided(RecoveryChoice.DELIVER, "the final answer is written"),
            TurnFinished(" ".join(parts)),
        ]
        owed = [OutboxReply(chat_address("c1"), turn.id, parts)]
        return await self.store.turns.append(turn, entries, self.now(), replies=owed)

    async def fails_turn(self, turn: Turn) -> list[JournalRecord] | None:
        return await self.appends(turn, TurnFailed("the provider said no"))

    async def cancels_turn(self, turn: Turn, why: str = "stopped") -> list[JournalRecord] | None:
        return await self.appends(turn, TurnCancelled(why))

    async def interrupts_turn(self, turn: Turn, reason: str = "restart_interrupted") -> Turn | None:
        """Mark a lost turn as the recoverer does."""
        return await self.store.turns.take_over(turn.id, turn.key, reason, self.run, self.now())

    async def lost_turns(self) -> list[Turn]:
        """The turns of dead runs that this gateway may take over."""
        return [each.turn for each in await self.store.turns.lost(self.run)]

    async def declares_dead(self, other: StoreConnection) -> bool:
        """Make a heartbeat that ends another gateway's run, whose count stands still."""
        ((beats,),) = await self.query("SELECT beats FROM runs WHERE id = :run", run=other.run)
        found = await self.store.runs.beat(self.run, {other.run: beats})
        return found is not None and other.run in found.ended

    async def outbox_heads(self) -> list[OutboxDelivery]:
        return await self.store.outbox.lane_heads(self.run, [PLATFORM])

    async def starts_delivery(self, row: OutboxDelivery) -> bool:
        return await self.store.outbox.start_sending(row, self.run, self.now())

    async def delivers(self, count: int = 1) -> list[str]:
        """Send the first rows of all lanes, one after the other; the texts that went out."""
        texts = []
        for _ in range(count):
            row = (await self.outbox_heads())[0]
            assert await self.starts_delivery(row)
            assert await self.store.outbox.record_sent(row, f"receipt of {row.text}", self.now())
            texts.append(row.text)
        return texts


def _snapshot(tx: Tx) -> DatabaseSnapshot:
    turns = [
        Turn(*(*row[:4], TurnState(row[4]), *row[5:]))
        for row in tx.all(f"SELECT {', '.join(Turn.__struct_fields__)} FROM turns ORDER BY id")
    ]
    journal: dict[str, list[JournalRecord]] = {turn.id: [] for turn in turns}
    for turn, *row in tx.all("SELECT turn, seq, at, kind, version, body FROM journal ORDER BY session, seq"):
        journal[turn].append(JournalRecord(row[0], row[1], decode_entry(row[2], row[3], row[4])))
    received = tx.all("SELECT body, turn FROM inbox WHERE body IS NOT NULL ORDER BY key, position")
    inbound = [(msgspec.json.decode(body, type=Inbound), turn) for body, turn in received]
    outbox = tx.all(f"SELECT {', '.join(OutboxDelivery.__struct_fields__)} FROM outbox ORDER BY lane, id")
    return DatabaseSnapshot(
        turns,
        journal,
        [InboxMessage(one.address.chat, one.text, turn) for one, turn in inbound],
        [OutboxDelivery(*row) for row in outbox],
    )


def python_child(
    program: str, *arguments: str, stdout: IO[bytes] | int = subprocess.PIPE
) -> subprocess.Popen[bytes]:
    """Start a Python process that can import what tests can import."""
    environment = {"PYTHONPATH": ":".join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", program, *arguments], stdout=stdout, env=environment)


class SpyTx:
    """A transaction that passes each statement to a spy before running the statement."""

    def __init__(self, tx: Tx, spy: Callable[[str], None]) -> None:
        self._tx = tx
        self._spy = spy
        self.ids, self.time = tx.ids, tx.time
        self.for_update = tx.for_update

    def one(self, sql: str, **values: Any) -> Row | None:
        self._spy(sql)
        return self._tx.one(sql, **values)

    def all(self, sql: str, **values: Any) -> list[Row]:
        self._spy(sql)
        return self._tx.all(sql, **values)

    def run(self, sql: str, **values: Any) -> int:
        self._spy(sql)
        return self._tx.run(sql, **values)

    def lease_clock(self) -> int:
        return self._tx.lease_clock()


class SpyDatabase:
    """A database whose writes can be held up between two statements."""

    def __init__(self, database: Database, spy: Callable[[str], None]) -> None:
        self._database = database
        self._spy = spy
        self.ids = database.ids
        self.exclusive = database.exclusive

    async def write(self, transaction: Callable[[Tx], T], *, key: str = "", at: int | None = None) -> T:
        return await self._database.write(lambda tx: transaction(SpyTx(tx, self._spy)), key=key, at=at)

    async def read(self, transaction: Callable[[Tx], T], *, at: int | None = None) -> T:
        return await self._database.read(transaction, at=at)

    @property
    def problem(self) -> str | None:
        return self._database.problem

    async def close(self) -> None:
        await self._database.close()


class DelayedClaims:
    """Wraps databases so that the claim of a turn returns only after `release` is set."""

    def __init__(self) -> None:
        self.claimed, self.release = asyncio.Event(), asyncio.Event()

    def wrap(self, database: Database) -> Database:
        return _DelayedDatabase(database, self)


class _DelayedDatabase(SpyDatabase):
    def __init__(self, database: Database, late: DelayedClaims) -> None:
        super().__init__(database, lambda _: None)
        self._delay = late

    async def write(self, transaction: Callable[[Tx], T], *, key: str = "", at: int | None = None) -> T:
        statements: list[str] = []
        result = await self._database.write(lambda tx: transaction(SpyTx(tx, statements.append)), key=key, at=at)
        if any("INSERT INTO turns" in sql for sql in statements):
            self._delay.claimed.set()
            await self._delay.release.wait()
        return result
