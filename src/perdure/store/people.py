"""People: who may talk to the agent, and as what."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from perdure.store.database import Database

Role = Literal["owner", "member", "guest"]


class Person(Struct, frozen=True):
    platform: str
    person: str
    name: str
    role: Role
    added_at: int


class People:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def admit(self, person: Person) -> None:
        """After return: the person is known, with this role and name."""
        sql = (
            "INSERT INTO people (platform, person, name, role, added_at) "
            "VALUES (:platform, :person, :name, :role, :added_at) "
            "ON CONFLICT (platform, person) DO UPDATE SET role = excluded.role, name = excluded.name"
        )
        values = {name: getattr(person, name) for name in Person.__struct_fields__}
        await self._database.write(lambda tx: tx.run(sql, **values))

    async def remove(self, platform: str, person: str) -> bool:
        """After return: the person is unknown. False: they were so before."""
        sql = "DELETE FROM people WHERE platform = :platform AND person = :person"
        return await self._database.write(lambda tx: bool(tx.run(sql, platform=platform, person=person)))

    async def find(self, platform: str, person: str) -> Person | None:
        sql = (
            "SELECT platform, person, name, role, added_at FROM people "
            "WHERE platform = :platform AND person = :person"
        )
        row = await self._database.read(lambda tx: tx.one(sql, platform=platform, person=person))
        return Person(*row) if row else None
