"""People: persons that are stored by name, with their role, in one chat or on a whole platform."""

from __future__ import annotations

from msgspec import Struct

from perdure.core.roles import Role
from perdure.store.database import Database, Transaction, Tx

EVERYWHERE = ""  # the chat of a person whose role holds on the whole platform


class Person(Struct, frozen=True):
    platform: str
    person: str
    name: str
    role: Role
    added_at: int
    chat: str = EVERYWHERE


_COLUMNS = ", ".join(Person.__struct_fields__)
_PLACEHOLDERS = ", ".join(f":{name}" for name in Person.__struct_fields__)


def _nothing(_: Tx) -> None: ...


class People:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def admit(self, person: Person, after: Transaction[object] = _nothing) -> None:
        """Store a person with this role and name, and run `after`, in one transaction."""

        def transaction(tx: Tx) -> None:
            admit(tx, person)
            after(tx)

        await self._database.write(transaction)

    async def remove(
        self, platform: str, person: str, chat: str | None = None, after: Transaction[object] = _nothing
    ) -> bool:
        """Delete a person in that chat, or wherever they were known, and run `after`, in one transaction.

        False: they were unknown before.
        """

        def transaction(tx: Tx) -> bool:
            there = "" if chat is None else " AND chat = :chat"
            sql = f"DELETE FROM people WHERE platform = :platform AND person = :person{there}"
            gone = tx.run(sql, platform=platform, person=person, **({} if chat is None else {"chat": chat}))
            after(tx)
            return bool(gone)

        return await self._database.write(transaction)

    async def find(self, platform: str, person: str, chat: str = EVERYWHERE) -> Person | None:
        sql = f"SELECT {_COLUMNS} FROM people WHERE platform = :platform AND person = :person AND chat = :chat"
        row = await self._database.read(lambda tx: tx.one(sql, platform=platform, person=person, chat=chat))
        return Person(*row) if row else None

    async def page(self, after: tuple[str, str, str] = ("", "", ""), limit: int = 100) -> list[Person]:
        """Return people in the order of their platforms, ids and chats, beginning behind `after`."""
        platform, person, chat = after
        sql = (
            f"SELECT {_COLUMNS} FROM people WHERE (platform, person, chat) > (:platform, :person, :chat) "
            "ORDER BY platform, person, chat LIMIT :limit"
        )
        values = {"platform": platform, "person": person, "chat": chat, "limit": limit}
        return await self._database.read(lambda tx: [Person(*row) for row in tx.all(sql, **values)])


def admit(tx: Tx, person: Person) -> None:
    """Store a person; one who is stored already keeps the first date."""
    sql = (
        f"INSERT INTO people ({_COLUMNS}) VALUES ({_PLACEHOLDERS}) ON CONFLICT (platform, person, chat) "
        "DO UPDATE SET role = excluded.role, name = excluded.name"
    )
    tx.run(sql, **{name: getattr(person, name) for name in Person.__struct_fields__})


def roles(tx: Tx, platform: str, person: str, chat: str, *, for_update: bool = False) -> dict[str, Role]:
    """Return a person's stored roles by chat: in this one, and everywhere.

    With `for_update`, nobody deletes them before this transaction ends.
    """
    rows = tx.all(
        "SELECT chat, role FROM people WHERE platform = :platform AND person = :person "
        f"AND chat IN ('', :chat){tx.for_update if for_update else ''}",
        platform=platform,
        person=person,
        chat=chat,
    )
    return {row[0]: row[1] for row in rows}
