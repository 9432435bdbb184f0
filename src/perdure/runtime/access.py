"""Who may do what. One question, asked wherever somebody wants something, and answered by the store each time."""

from __future__ import annotations

from perdure.config import Settings
from perdure.core.address import Address, decode_session_key
from perdure.core.messages import Inbound, Sender
from perdure.core.roles import OPERATOR, Right, Role, has_right
from perdure.store.api import Store
from perdure.store.authorisation import Authorisation
from perdure.store.database import Transaction, Tx
from perdure.store.ids import Clock
from perdure.store.people import EVERYWHERE

__all__ = ["OPERATOR", "Access", "Right"]


class Access:
    """The people that the configuration lets in, and those who are known by name."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._agent = settings.agent.name
        self._store = store
        self._authorisation = Authorisation(settings.allow_lists, per_person=settings.session.groups == "person")

    async def role(self, address: Address, person: Sender) -> Role | None:
        """What somebody is in a chat; None: nobody knows them there."""
        return await self._store.database.read(lambda tx: self._authorisation.role(tx, address, person))

    async def may(self, key: str, person: Sender, right: Right) -> bool:
        """Whether somebody may do something in a conversation, as things are now."""
        there = decode_session_key(key)
        return has_right(await self.role(there.address, person), right, shared=there.shared)

    def is_still_allowed(self, tx: Tx, key: str, person: Sender, right: Right, platform: str = "") -> bool:
        """Whether what somebody asked for still stands: they may do it in a conversation, as things are now.

        Who asked on another platform than that of the conversation, by a login, has to be an owner there.
        """
        if person == OPERATOR:
            return True
        if platform and platform != decode_session_key(key).address.platform:
            return self._is_owner(tx, platform, person)
        return self._authorisation.may(tx, key, person, right)

    def is_web_owner(self, tx: Tx, person: Sender) -> bool:
        """Whether somebody is an owner on the web, so that a login of theirs counts."""
        return self._is_owner(tx, "web", person)

    def _is_owner(self, tx: Tx, platform: str, person: Sender) -> bool:
        return self._authorisation.role(tx, Address(platform, "dm", EVERYWHERE), person) == "owner"

    def usual_key(self, inbound: Inbound) -> str:
        """The conversation that a message belongs to, unless its sender is a guest."""
        return self._authorisation.usual_key(self._agent, inbound.address, inbound.sender)

    def resolve_key(self, inbound: Inbound) -> Transaction[str | None]:
        """The conversation that a message belongs to; None: its sender may not talk."""
        return self._authorisation.resolve_key(self._agent, inbound.address, inbound.sender)

    async def reject_unauthorised(self, clock: Clock) -> int:
        """After return: nothing waits any more from people who may not talk; how many messages did."""
        work = self._authorisation.reject_unauthorised()
        return await self._store.database.write(work, at=clock())
