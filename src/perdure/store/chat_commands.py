"""Chat commands: slash commands that people wrote, each carried out once, together with its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from perdure.core.address import Address
from perdure.core.delivery import split_reply
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.core.states import InboxState
from perdure.store import outbox
from perdure.store.conditions import MESSAGE_WAITS, has_service, lease_is_free_or_ours
from perdure.store.database import Database, Row, Transaction, Tx
from perdure.store.outbox import OutboxReply

T = TypeVar("T")


def _refuse_nobody(_: Tx) -> str | None:
    return None


class ChatCommand(Struct, frozen=True):
    """A command that waits to be carried out."""

    id: str
    key: str
    session: str
    bound: str | None  # the turn that was current when it was stored
    text: str
    sender: Sender
    address: Address
    message: str
    received_at: int
    position: int  # in the chat: messages behind the command are not affected by it
    attachments: tuple[Attachment, ...] = ()
    longest: int | None = None  # how long one message may be where its answer goes
    refusal: Transaction[str | None] = _refuse_nobody  # the answer to whoever may not; None: they may


class ChatCommands:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def waiting(self, run: str) -> list[ChatCommand]:
        """Return the waiting commands of chats that are ours or free, and that we can serve, in their order."""
        return await self._database.read(
            lambda tx: [_as_command(row) for row in tx.all(_WAITING_COMMANDS, run=run)]
        )

    async def execute(
        self, command: ChatCommand, verb: Transaction[T], format_answer: Callable[[T], str], now: int
    ) -> T | None:
        """Execute a command and put its answer in the outbox, in one transaction.

        Whether its sender may is asked in the same transaction. None: they may not, or it was executed before.

        After return: both are durable. If we die inside: both are, or the command still waits.
        """
        return await self._database.write(
            lambda tx: _execute(tx, command, verb, format_answer), key=command.key, at=now
        )

    async def answer(self, command: ChatCommand, text: str, now: int) -> None:
        """Answer a command that changes nothing else. After return: it is carried out, and its answer is owed."""
        await self.execute(command, lambda _: None, lambda _: text, now)

    async def execute_verb(self, key: str, verb: Transaction[T], *, at: int | None = None) -> T:
        """Run an operator's verb on one key."""
        return await self._database.write(verb, key=key, at=at)


_WAITING_COMMANDS = (
    "SELECT i.id, i.key, i.session, i.bound, i.body, i.received_at, i.position "
    "FROM inbox i JOIN leases l ON l.key = i.key "
    f"WHERE i.{MESSAGE_WAITS} AND i.kind = 'command' "
    f"AND {lease_is_free_or_ours('l')} AND {has_service('l')} ORDER BY i.key, i.state, "
    "i.kind, i.position"
)


def _as_command(row: Row) -> ChatCommand:
    inbound = msgspec.json.decode(row[4], type=Inbound)
    sender, address, message = inbound.sender, inbound.address, inbound.message
    content = (inbound.text, sender, address, message)
    return ChatCommand(row[0], row[1], row[2], row[3], *content, row[5], row[6], inbound.attachments)


def _execute(tx: Tx, command: ChatCommand, verb: Transaction[T], format_answer: Callable[[T], str]) -> T | None:
    sql = f"UPDATE inbox SET state = '{InboxState.OBEYED}' WHERE id = :id AND {MESSAGE_WAITS} AND kind = 'command'"
    if not tx.run(sql, id=command.id):
        return None
    refused = command.refusal(tx)
    if refused is not None:
        _answer(tx, command, refused)
        return None
    result = verb(tx)
    _answer(tx, command, format_answer(result))
    return result


def _answer(tx: Tx, command: ChatCommand, text: str) -> None:
    """Put an answer in the outbox; an empty one is none."""
    if text:
        parts = tuple(split_reply(text, command.longest))
        outbox.enqueue(tx, command.key, None, OutboxReply(command.address, command.id, parts, command.message))
