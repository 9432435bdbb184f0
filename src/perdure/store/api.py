"""The store: a class per noun over one database. Each method says what is durable after it returns."""

from __future__ import annotations

from pathlib import Path

from perdure.store.answers import Answers
from perdure.store.attachments import Attachments
from perdure.store.background_sessions import BackgroundSessions
from perdure.store.chat_commands import ChatCommands
from perdure.store.database import Database, unknown_url
from perdure.store.decisions import Decisions
from perdure.store.erasure import Erasure
from perdure.store.file_contents import FileContents
from perdure.store.gateways import Gateways
from perdure.store.goals import Goals
from perdure.store.hints import HintChannel
from perdure.store.ids import Clock, wall_clock
from perdure.store.inbox import Inbox
from perdure.store.journal import Journal
from perdure.store.logins import Logins
from perdure.store.metrics import Counters, Gauges
from perdure.store.outbox import Outbox
from perdure.store.pairings import Pairings
from perdure.store.people import People
from perdure.store.previews import Previews
from perdure.store.process_relay import ProcessRelay
from perdure.store.processes import Processes
from perdure.store.queue import Queue
from perdure.store.receiving_leases import ReceivingLeases
from perdure.store.run_services import RunServices
from perdure.store.runs import Runs
from perdure.store.sessions import Sessions
from perdure.store.snapshots import Snapshots
from perdure.store.timeline import Timelines
from perdure.store.transfer import Transfer
from perdure.store.turns import Turns


class Store:
    """The classes of the store, over one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.ids = database.ids
        self.sessions = Sessions(database)
        self.turns = Turns(database)
        self.journal = Journal(database)
        self.inbox = Inbox(database)
        self.answers = Answers(database)
        self.outbox = Outbox(database)
        self.attachments = Attachments(database)
        self.file_contents = FileContents(database)
        self.previews = Previews(database)
        self.chat_commands = ChatCommands(database)
        self.queue = Queue(database)
        self.goals = Goals(database)
        self.background_sessions = BackgroundSessions(database)
        self.runs = Runs(database)
        self.run_services = RunServices(database)
        self.gateways = Gateways(database)
        self.receiving_leases = ReceivingLeases(database)
        self.snapshots = Snapshots(database)
        self.timelines = Timelines(database)
        self.decisions = Decisions(database)
        self.gauges = Gauges(database)
        self.counters = Counters(database)
        self.people = People(database)
        self.pairings = Pairings(database)
        self.logins = Logins(database)
        self.processes = Processes(database)
        self.process_relay = ProcessRelay(database)
        self.erasure = Erasure(database)
        self.transfer = Transfer(database)

    @property
    def problem(self) -> str | None:
        """A sentence that says why writes fail at the moment, or None."""
        return self.database.problem

    async def close(self) -> None:
        await self.database.close()


async def open_database(url: str, *, home: Path, clock: Clock = wall_clock) -> Database:
    """Open, make or migrate the database at a URL, and take the locks of its gateway."""
    if url.startswith("sqlite:///"):
        from perdure.store.backends.sqlite import open_sqlite  # only the database in use is loaded

        return open_sqlite(Path(url.removeprefix("sqlite:///")), home=home, clock=clock)
    if url.startswith("postgresql://"):
        from perdure.store.backends.postgres import open_postgres

        return await open_postgres(url, home=home, clock=clock)
    raise unknown_url(url)


def open_hints(url: str) -> HintChannel | None:
    """Return what carries hints between the gateways on the database at a URL; None: there is only one gateway."""
    if not url.startswith("postgresql://"):
        return None
    from perdure.store.backends.postgres_hints import PostgresHints

    return PostgresHints(url)
