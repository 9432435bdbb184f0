"""Processes: commands that outlive us, each by the directory of its keeper."""

from __future__ import annotations

from msgspec import Struct

from perdure.store.database import Database

_COLUMNS = "id, session, turn, call, directory, command, state, exit_code, started_at, ended_at"


class Process(Struct, frozen=True):
    id: str
    session: str
    turn: str
    call: str
    directory: str
    command: str
    state: str = "live"
    exit_code: int | None = None
    started_at: int = 0
    ended_at: int | None = None


class Processes:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def record(self, process: Process) -> None:
        """After return: the process is on record as live, before anything of it has run."""
        names = Process.__struct_fields__
        sql = f"INSERT INTO processes ({_COLUMNS}) VALUES ({', '.join(':' + name for name in names)})"
        values = {name: getattr(process, name) for name in names}
        await self._database.write(lambda tx: tx.run(sql, **values))

    async def end(self, process: str, exit_code: int | None, now: int) -> bool:
        """Record the end once; without an exit code the process is lost. False: it had ended before."""
        sql = (
            "UPDATE processes SET state = :state, exit_code = :code, ended_at = :now "
            "WHERE id = :id AND state = 'live'"
        )
        state = "lost" if exit_code is None else "ended"
        return await self._database.write(
            lambda tx: bool(tx.run(sql, state=state, code=exit_code, now=now, id=process))
        )

    async def live(self) -> list[Process]:
        """Every process that has not ended as far as we know."""
        rows = await self._database.read(
            lambda tx: tx.all(f"SELECT {_COLUMNS} FROM processes WHERE state = 'live' ORDER BY id")
        )
        return [Process(*row) for row in rows]
