"""Who may do what. One question, asked wherever somebody wants something, and answered by the store each time."""

from __future__ import annotations

from perdure.config import Settings
from perdure.core import texts
from perdure.core.address import Address, decode_session_key
from perdure.core.messages import Inbound, Sender
from perdure.core.roles import OPERATOR, Right, Role, ToolRights, has_right
from perdure.store import transitions, turn_rights
from perdure.store.api import Store
from perdure.store.authorisation import Authorisation
from perdure.store.database import Transaction, Tx
from perdure.store.ids import Clock
from perdure.store.transitions import Turn

__all__ = ["OPERATOR", "Access", "Right"]


class Access:
    """The people that the configuration lets in, and those who are known by name."""

    def __init__(self, settings: Settings, store: Store) -> None:
        self._agent = settings.agent.name
        self._store = store
        self._authorisation = Authorisation(
            settings.allow_lists,
            per_person=settings.session.groups == "person",
            tools=settings.tools_by_role,
        )

    async def role(self, address: Address, person: Sender) -> Role | None:
        """What somebody is in a chat; None: nobody knows them there."""
        return await self._store.database.read(lambda tx: self._authorisation.role(tx, address, person))

    async def may(self, key: str, person: Sender, right: Right) -> bool:
        """Whether somebody may do something in a conversation, as things are now."""
        there = decode_session_key(key)
        return has_right(await self.role(there.address, person), right, shared=there.shared)

    def is_still_allowed(self, tx: Tx, key: str, person: Sender, right: Right) -> bool:
        """Whether what somebody asked for still stands: they may do it in a conversation, as things are now."""
        return person == OPERATOR or self._authorisation.may(tx, key, person, right)

    def command_refusal(self, key: str, person: Sender, right: Right) -> Transaction[str | None]:
        """What is answered to a person who gives a command without its right; None: they may give it.

        Whoever may not even talk is told nothing.
        """

        def transaction(tx: Tx) -> str | None:
            if not self._authorisation.may(tx, key, person, "talk"):
                return ""
            return None if self._authorisation.may(tx, key, person, right) else texts.people.NOT_ALLOWED

        return transaction

    def answer_refusal(self, key: str, person: Sender) -> Transaction[str | None]:
        """What is answered to a person whose command answers a question that they may not answer."""
        refusal = self.command_refusal(key, person, "command")

        def transaction(tx: Tx) -> str | None:
            turn = transitions.current_turn(tx, key)
            beginner = turn_rights.beginner_of(tx, turn) if turn else None
            fits = self._authorisation.may_join(tx, key, beginner, person)
            return refusal(tx) if fits else texts.people.NOT_ALLOWED

        return transaction

    def may_reach(self, tx: Tx, here: str, there: str, person: Sender, right: Right) -> bool:
        """Whether a person who asks in one conversation has a right in another one."""
        return self._authorisation.may_reach(tx, here, there, person, right)

    def may_join(self, tx: Tx, key: str, beginner: Sender | None, sender: Sender) -> bool:
        """Whether words of a person may join a turn that another one began."""
        return self._authorisation.may_join(tx, key, beginner, sender)

    async def tool_rights(self, turn: Turn) -> ToolRights:
        """The tools that a turn may use, as things are now."""
        return await self._store.database.read(lambda tx: self._authorisation.tool_rights(tx, turn))

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
