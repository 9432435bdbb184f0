"""What gateways ask each other about background processes, which only the machine that runs them can touch.

A gateway that wants to stop a process on another machine, or to see its output, writes that into the row of the
process. The gateway of that machine polls for such requests, and records what came of them.
"""

from __future__ import annotations

from msgspec import Struct

from perdure.core.states import ProcessState
from perdure.store.conditions import PROCESS_IS_LIVE
from perdure.store.database import Database, Tx

_RUNS = "SELECT {} FROM runs r WHERE p.instance IN (r.instance, r.former)"
_VIEW = (
    "SELECT p.state, p.exit_code, p.signal, p.output_tail, p.output_size, p.output_asked_at, "
    f"({_RUNS.format('r.home')} ORDER BY r.id DESC LIMIT 1), ({_RUNS.format('MAX(r.id)')}), "
    f"EXISTS ({_RUNS.format('1')} AND r.ended_at IS NULL) FROM processes p WHERE p.id = :id"
)
_ASKED = f"{PROCESS_IS_LIVE} AND (stop_asked_at IS NOT NULL OR output_asked_at IS NOT NULL)"


class ProcessView(Struct, frozen=True):
    """A process as every gateway can see it."""

    state: ProcessState
    exit_code: int | None
    signal: int | None
    output: str  # the end of it, as far as its gateway has recorded it
    output_size: int | None  # of all of it; None: its gateway has recorded nothing
    awaits_output: bool  # its gateway was asked for the output, and has not answered
    gateway: str  # its gateway: the machine and the path of the home
    run: str | None  # the newest one of that gateway
    gateway_runs: bool


class ProcessAsk(Struct, frozen=True):
    """What is asked of the gateway on whose machine a process runs."""

    process: str
    stop: bool
    output: bool


class ProcessRelay:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def ask_stop(self, process: str) -> None:
        """Ask the gateway of a live process to stop it. After return: that gateway does, as soon as it runs."""
        await self._ask("stop_asked_at", process)

    async def ask_output(self, process: str) -> None:
        """Ask the gateway of a live process to record the end of its output."""
        await self._ask("output_asked_at", process)

    async def _ask(self, column: str, process: str) -> None:
        sql = f"UPDATE processes SET {column} = :now WHERE id = :id AND {PROCESS_IS_LIVE}"

        def transaction(tx: Tx) -> None:
            tx.run(sql, now=tx.time, id=process)

        await self._database.write(transaction, key=process)

    async def asked(self) -> list[ProcessAsk]:
        """Return what is asked about live processes, of any gateway."""
        sql = f"SELECT id, stop_asked_at IS NOT NULL, output_asked_at IS NOT NULL FROM processes WHERE {_ASKED}"
        rows = await self._database.read(lambda tx: tx.all(sql))
        return [ProcessAsk(row[0], bool(row[1]), bool(row[2])) for row in rows]

    async def record_output(self, process: str, tail: str, size: int) -> None:
        """Record the end of a process's output, and how long all of it is. After return: nobody awaits it."""
        sql = (
            "UPDATE processes SET output_tail = :tail, output_size = :size, output_asked_at = NULL WHERE id = :id"
        )
        await self._database.write(lambda tx: tx.run(sql, tail=tail, size=size, id=process), key=process)

    async def view(self, process: str) -> ProcessView | None:
        """Return what is known of a process; None: there is none."""
        row = await self._database.read(lambda tx: tx.one(_VIEW, id=process))
        if row is None:
            return None
        state, code, signal, tail, size, asked_at, gateway, run, runs = row
        known = (tail or "", size, asked_at is not None, gateway or "", run, bool(runs))
        return ProcessView(ProcessState(state), code, signal, *known)
