"""Authorisation: who may do what, checked inside a transaction, so that the answer holds when it commits.

Waiting messages of people who may no longer talk are rejected whenever rights may have been lost: when a person is
removed, and at every start, whose configuration may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import Address, SessionKey, decode_session_key
from perdure.core.journal import Cause, TurnBegan
from perdure.core.messages import Inbound, Sender
from perdure.core.roles import (
    DEFAULT_TOOLS_BY_ROLE,
    OPERATOR,
    AllowLists,
    Right,
    Role,
    ToolRights,
    ToolsByRole,
    has_fewer_rights,
    has_right,
)
from perdure.core.states import GoalState
from perdure.store import inbox, people, reports, transitions
from perdure.store.conditions import GOAL_IS_ACTIVE, MESSAGE_WAITS
from perdure.store.database import Row, Transaction, Tx
from perdure.store.transitions import Turn

_BEGAN = (
    "SELECT j.body, j.seq, t.key FROM journal j JOIN turns t ON t.id = j.turn "
    "WHERE j.session = :session AND j.seq <= :seq AND j.kind = 'began' ORDER BY j.seq DESC LIMIT 1"
)


class Beginner(Struct, frozen=True):
    """The person whose words began a turn, and the key of the chat in which they said them."""

    person: Sender
    key: str  # another one than the turn's, if its session was moved since


MayJoin = Callable[[Tx, str, Beginner | None, Sender], bool]  # gets the key, who began the turn, and who wrote


def everybody_may_join(_tx: Tx, _key: str, _beginner: Beginner | None, _sender: Sender) -> bool:
    """The rule of callers that know no people."""
    return True


def beginner_of(tx: Tx, turn: Turn) -> Beginner | None:
    """Return who began a turn; None: it was imported without any words.

    A turn that somebody only asked to go on has the words, and the right, of the turn before it.
    """
    seq, asked = turn.first_seq, None
    while (row := tx.one(_BEGAN, session=turn.session, seq=seq)) is not None:
        causes = msgspec.json.decode(row[0], type=TurnBegan).causes
        found = beginner_of_causes(causes)
        if found is not None:
            return Beginner(found, row[2])
        asked = asked or next((Beginner(cause.sender, row[2]) for cause in causes), None)
        seq = row[1] - 1
    return asked


def beginner_of_causes(causes: Sequence[Cause]) -> Sender | None:
    """Return the person whose words stand first; without words, whose process is reported. None: neither."""
    written = [cause for cause in causes if not (cause.note or cause.wish)]
    told = [cause for cause in causes if cause.note] if not any(cause.wish for cause in causes) else []
    return next((cause.sender for cause in (*written, *told)), None)


def rows_that_may_join(
    tx: Tx, rows: Sequence[Row], key: str, beginner: Beginner | None, may_join: MayJoin
) -> list[Row]:
    """Return the rows of the inbox, (id, body, …), whose senders may add to a turn that somebody began."""
    return [row for row in rows if may_join(tx, key, beginner, sender_of(row))]


def sender_of(row: Row) -> Sender:
    return msgspec.json.decode(row[1], type=Inbound).sender


class Authorisation:
    """Combines the allow lists of the configuration with the people that are stored by name."""

    def __init__(
        self,
        lists: Callable[[str], AllowLists],
        *,
        per_person: bool = False,
        tools: Callable[[str], ToolsByRole] = lambda _: DEFAULT_TOOLS_BY_ROLE,
    ) -> None:
        """`lists` returns the lists of a platform, and `tools` the tools of each role there.

        `per_person`: in groups, each person has their own session.
        """
        self._lists = cache(lists)
        self._tools = cache(tools)
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

    def is_owner(self, tx: Tx, platform: str, person: Sender) -> bool:
        """Say whether a person is an owner on a whole platform."""
        return self.role(tx, Address(platform, "dm", people.EVERYWHERE), person) == "owner"

    def may_still(self, tx: Tx, key: str, person: Sender, right: Right, platform: str) -> bool:
        """Say whether what a person did on a platform for the session of a key still counts.

        On another platform than the session's own, they did it by a login, which only owners have there.
        """
        if platform in ("", decode_session_key(key).address.platform):
            return self.may(tx, key, person, right)
        return self.is_owner(tx, platform, person)

    def refuse_command(self, key: str, person: Sender, right: Right) -> Transaction[str | None]:
        """Return what is answered to a person who gives a command without its right; None: they may give it.

        Whoever may not even talk is told nothing.
        """

        def transaction(tx: Tx) -> str | None:
            if not self.may(tx, key, person, "talk"):
                return ""
            return None if self.may(tx, key, person, right) else texts.people.NOT_ALLOWED

        return transaction

    def refuse_answer(self, key: str, person: Sender) -> Transaction[str | None]:
        """Return what is answered to a person whose command answers a question; None: they may answer it."""
        refuse = self.refuse_command(key, person, "command")

        def transaction(tx: Tx) -> str | None:
            turn = transitions.current_turn(tx, key)
            began = beginner_of(tx, turn) if turn else None
            fits = self.may_join(tx, key, began, person)
            return refuse(tx) if fits else texts.people.NOT_ALLOWED

        return transaction

    def may_reach(self, tx: Tx, here: str, there: str, person: Sender, right: Right) -> bool:
        """Say whether a person, who asks in the session of one key, has a right in the session of another key.

        They have it in the same chat, unless that session is somebody else's own, and in their own direct chat; an
        owner of both places has it everywhere. That somebody is known on a whole platform gives no right in other
        people's chats.
        """
        if here == there:
            return self.may(tx, there, person, right)
        ours, theirs = decode_session_key(here), decode_session_key(there)
        role = self.role(tx, theirs.address, person)
        if not has_right(role, right, shared=theirs.shared):
            return False
        if role == "owner" and self.role(tx, ours.address, person) == "owner":
            return True
        if theirs.address.kind == "dm" and inbox.writers(tx, there) == {person.id}:
            return True
        return _is_same_chat(ours.address, theirs.address) and theirs.person in (None, person.id)

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────

    def tool_rights(self, tx: Tx, turn: Turn) -> ToolRights:
        """Return the tools that a turn may use now: those of the person whose words began it."""
        began = beginner_of(tx, turn)
        role = self._role_of_beginner(tx, began)
        tools = self._tools(decode_session_key(turn.key).address.platform)
        return ToolRights(role, tuple(tools[role]) if role else (), began.person.id if began else "")

    def may_join(self, tx: Tx, key: str, began: Beginner | None, sender: Sender) -> bool:
        """Say whether words of a person may join a turn that another one began: not with fewer rights."""
        if began is None or (began.key, began.person.id) == (key, sender.id):
            return True
        address = decode_session_key(key).address
        role, than = self.role(tx, address, sender), self._role_of_beginner(tx, began)
        return not has_fewer_rights(role, than, self._tools(address.platform))

    def _role_of_beginner(self, tx: Tx, began: Beginner | None) -> Role | None:
        """Return the role of who began a turn, in the chat in which they did."""
        return self.role(tx, decode_session_key(began.key).address, began.person) if began else None

    # ── keys ────────────────────────────────────────────────────────────────────────────────────────────────

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


def _is_same_chat(one: Address, other: Address) -> bool:
    """Say whether two addresses are in one chat, maybe in two threads of it."""
    return (one.platform, one.kind, one.chat) == (other.platform, other.kind, other.chat)
