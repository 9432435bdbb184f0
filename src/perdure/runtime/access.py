"""Access: what a person may do, read from the store at the moment of the question."""

from __future__ import annotations

from perdure.config import Settings
from perdure.core.address import Address
from perdure.core.messages import Sender
from perdure.core.roles import Right, Role, ToolRights
from perdure.store.api import Store
from perdure.store.authorisation import Authorisation
from perdure.store.ids import Clock
from perdure.store.transitions import Turn


class Access:
    """Asks the authorisation in a transaction of its own; a caller inside a transaction asks `authorisation`."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._database = store.database
        self.authorisation = Authorisation(
            settings.allow_lists,
            per_person=settings.groups_per_person,
            tools=settings.tools_by_role,
        )

    async def role(self, address: Address, person: Sender) -> Role | None:
        """Return a person's present role in a chat; None: the person is unknown there."""
        return await self._database.read(lambda tx: self.authorisation.role(tx, address, person))

    async def may(self, key: str, person: Sender, right: Right) -> bool:
        """Say whether a person has a right in the session of a key at present."""
        return await self._database.read(lambda tx: self.authorisation.may(tx, key, person, right))

    async def tool_rights(self, turn: Turn) -> ToolRights:
        """Return the tools that a turn may use at present."""
        return await self._database.read(lambda tx: self.authorisation.tool_rights(tx, turn))

    async def reject_unauthorised(self, clock: Clock) -> int:
        """Reject the waiting messages of people who may not talk; return how many there were."""
        return await self._database.write(self.authorisation.reject_unauthorised(), at=clock())
