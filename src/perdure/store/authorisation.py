"""Authorisation: who may do what, checked inside a transaction, so that the answer holds when it commits.

Waiting messages of people who may no longer talk are rejected whenever rights may have been lost: when a person is
removed, and at every start, whose configuration may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import msgspec

from perdure.core.address import Address, SessionKey, decode_session_key
from perdure.core.messages import Inbound, Sender
from perdure.core.roles import OPERATOR, AllowLists, Right, Role, has_right
from perdure.core.states import GoalState
from perdure.store import inbox, people, reports
from perdure.store.conditions import GOAL_IS_ACTIVE, MESSAGE_WAITS
from perdure.store.database import Transaction, Tx


class Authorisation:
    """Combines the allow lists of the configuration with the people that are stored by name."""

    def __init__(self, lists: Callable[[str], AllowLists], *, per_person: bool = False) -> None:
        """`lists` returns the lists of a platform. `per_person`: in groups, each person has their own session."""
        self._lists = cache(lists)
        self._per_person = per_person

    def role(self, tx: Tx, address: Address, person: Sender, *, for_update: bool = False) -> Role | None:
        """Return a person's role in a chat; None: they are unknown there."""
        lists = self._lists(address.platform)
        if person.id in lists.owners:
            return "owner"
        named = people.roles(tx, address.platform, person.id, address.chat, for_update=for_update)
        return lists.role_of(person.id, address.chat, named.get(address.chat), named.get(people.EVERYWHERE))

    def may(self, tx: Tx, key: str, person: Sender, right: Right) -> bool:
        """Say whether a person has a right in the session of a key."""
        there = decode_session_key(key)
        return has_right(self.role(tx, there.address, person), right, shared=there.shared)

    def usual_key(self, agent: str, address: Address, person: Sender) -> str:
        """Return the key that a message belongs to, unless its sender is a guest."""
        own = self._per_person and address.kind != "dm"
        return SessionKey(agent, address, person.id if own else None).text

    def resolve_key(self, agent: str, address: Address, person: Sender) -> Transaction[str | None]:
        """Return the key that a message belongs to; a guest in a group has their own. None: they may not talk."""

        def transaction(tx: Tx) -> str | None:
            role = self.role(tx, address, person, for_update=True)
            if role == "guest" and address.kind != "dm":
                return SessionKey(agent, address, person.id).text
            return None if role is None else self.usual_key(agent, address, person)

        return transaction

    def reject_unauthorised(self) -> Transaction[int]:
        """Reject the waiting messages of people who may not talk where they wrote; return how many there were.

        Their messages and commands are rejected, their goals end, and reports of their processes begin no turn.
        """

        def transaction(tx: Tx) -> int:
            gone = sum(self._reject_unless_allowed(tx, row) for row in tx.all(_WAITING_MESSAGES))
            for goal, key, person in tx.all(_ACTIVE_GOALS):
                if not self.may(tx, key, msgspec.json.decode(person, type=Sender), "talk"):
                    tx.run(
                        f"UPDATE goals SET state = '{GoalState.ENDED}' WHERE id = :id AND {GOAL_IS_ACTIVE}",
                        id=goal,
                    )
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


_WAITING_MESSAGES = f"SELECT id, key, kind, body FROM inbox WHERE {MESSAGE_WAITS} ORDER BY key, state, position"
_ACTIVE_GOALS = (
    f"SELECT g.id, s.key, g.person FROM goals g JOIN sessions s ON s.id = g.session WHERE g.{GOAL_IS_ACTIVE}"
)


def not_allowed_reason(person: Sender) -> str:
    """Return the reason with which a person's message is rejected."""
    return f"{person.id} is not allowed here"
