"""Admission: who may what, asked inside a transaction, so that the answer is true when that is committed.

What waits from people who may no longer talk is swept away whenever rights were taken: at their removal, and at a
start, which may be one with another configuration.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from perdure.core.address import Address, SessionKey, decode_session_key
from perdure.core.messages import Inbound, Sender
from perdure.core.roles import OPERATOR, AllowLists, Right, Role, has_right
from perdure.store import inbox, people, reports
from perdure.store.database import Transaction, Tx


class Authorisation:
    """The lists of the configuration, and the people who are known by name."""

    def __init__(self, lists: Callable[[str], AllowLists], *, per_person: bool = False) -> None:
        """`lists` gives those of a platform. `per_person`: in groups, each has a conversation of their own."""
        self._lists = cache(lists)
        self._per_person = per_person

    def role(self, tx: Tx, address: Address, person: Sender, *, for_update: bool = False) -> Role | None:
        """What somebody is in a chat; None: nobody knows them there."""
        lists = self._lists(address.platform)
        if person.id in lists.owners:
            return "owner"
        named = people.roles(tx, address.platform, person.id, address.chat, for_update=for_update)
        return lists.role_of(person.id, address.chat, named.get(address.chat), named.get(people.EVERYWHERE))

    def may(self, tx: Tx, key: str, person: Sender, right: Right) -> bool:
        """Whether somebody may do something in a conversation."""
        there = decode_session_key(key)
        return has_right(self.role(tx, there.address, person), right, shared=there.shared)

    def usual_key(self, agent: str, address: Address, person: Sender) -> str:
        """The conversation that a message belongs to, unless its sender is a guest."""
        own = self._per_person and address.kind != "dm"
        return SessionKey(agent, address, person.id if own else None).text

    def resolve_key(self, agent: str, address: Address, person: Sender) -> Transaction[str | None]:
        """The conversation that a message belongs to; a guest in a group has their own. None: who may not talk."""

        def transaction(tx: Tx) -> str | None:
            role = self.role(tx, address, person, for_update=True)
            if role == "guest" and address.kind != "dm":
                return SessionKey(agent, address, person.id).text
            return None if role is None else self.usual_key(agent, address, person)

        return transaction

    def reject_unauthorised(self) -> Transaction[int]:
        """Put away what waits from people who may not talk where they wrote; how many messages that were.

        Their messages and commands are rejected, and their goals end. News of their processes begin no turn.
        """

        def transaction(tx: Tx) -> int:
            gone = sum(self._reject_unless_allowed(tx, row) for row in tx.all(_WAITING_MESSAGES))
            for goal, key, person in tx.all(_ACTIVE_GOALS):
                if not self.may(tx, key, msgspec.json.decode(person, type=Sender), "talk"):
                    tx.run("UPDATE goals SET state = 'ended' WHERE id = :id AND state = 'active'", id=goal)
            return gone

        return transaction

    def _reject_unless_allowed(self, tx: Tx, row: tuple[str, str, str, str]) -> bool:
        message, key, kind, body = row
        sender = msgspec.json.decode(body, type=Inbound).sender
        ours = kind not in ("message", "command") and sender.id in (OPERATOR.id, "")
        if ours or self.may(tx, key, sender, "talk"):
            return False
        if kind in ("report", "aside"):
            reports.convert_to_notice(tx, message)
            return False
        inbox.reject_waiting(tx, message, not_allowed_reason(sender))
        return True


_WAITING_MESSAGES = "SELECT id, key, kind, body FROM inbox WHERE state = 'waiting' ORDER BY key, state, position"
_ACTIVE_GOALS = (
    "SELECT g.id, s.key, g.person FROM goals g JOIN sessions s ON s.id = g.session WHERE g.state = 'active'"
)


def not_allowed_reason(person: Sender) -> str:
    """Why somebody's message is not taken."""
    return f"{person.id} is not allowed here"
