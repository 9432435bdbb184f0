"""Pairings: the codes by which unknown people ask to be let in, and attempts to use a code.

A code is sent once, to the chat of the person who asked, and stored only as a digest. Everything is bounded,
however many unknown people write: the open codes, the codes sent to each person, and the tries of wrong codes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.messages import Inbound
from perdure.core.roles import Role
from perdure.store import inbox, outbox, people
from perdure.store.database import Database, Transaction, Tx
from perdure.store.outbox import OutboxReply
from perdure.store.people import EVERYWHERE, Person

CODE_ALPHABET = "ABCDEFGHJKMNPQRSTWXYZ23456789"  # without characters that look alike
CODE_LENGTH = 8
CODE_LIFETIME_MS = 3_600_000
CODE_INTERVAL_MS = 600_000  # at least this long between two codes for one person
MAX_OPEN_CODES = 20  # of one platform
MAX_WRONG_CODES = 10  # attempts within the window below
WRONG_CODES_WINDOW_MS = 600_000
MAX_RAW_CHARACTERS = 2000  # that are stored of the event of an unknown person

PairingRefusal = Literal["told", "quiet", "full", "silent", "again"]


class PairingRequest(Struct, frozen=True):
    """A person who asks to be let in."""

    id: str
    platform: str
    person: str
    name: str
    key: str  # of the chat that they wrote in
    asked_at: int
    expires_at: int


class PairingResult(Struct, frozen=True):
    """The outcome of a code; after too many wrong ones, `again_at` is the time of the next attempt."""

    outcome: Literal["paired", "wrong", "expired", "limited"]
    person: Person | None = None
    key: str = ""  # of the chat that gets the notice
    again_at: int = 0


def new_code() -> str:
    """Return a new random code, in two groups that are easy to read aloud."""
    letters = "".join(secrets.choice(CODE_ALPHABET) for _ in range(CODE_LENGTH))
    return f"{letters[:4]}-{letters[4:]}"


def code_digest(code: str) -> str:
    """Return the stored digest of a code, however the code is written."""
    letters = "".join(letter for letter in code.upper() if letter.isalnum())
    return hashlib.sha256(letters.encode()).hexdigest()


_COLUMNS = ", ".join(PairingRequest.__struct_fields__)


class Pairings:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def open_requests(self, now: int) -> list[PairingRequest]:
        """Return the requests whose code has not expired, the oldest first."""
        sql = f"SELECT {_COLUMNS} FROM pairings WHERE expires_at > :now ORDER BY id"
        return await self._database.read(lambda tx: [PairingRequest(*row) for row in tx.all(sql, now=now)])

    async def pair(self, code: str, role: Role, now: int, *, here: bool = False) -> PairingResult:
        """Admit the person with that code, on the whole platform or only `here`, in the chat where they asked.

        After return: the person is stored and will be told, and the code is used up; or the wrong attempt counts.
        If we die inside: all of it is done, or nothing.
        """
        return await self._database.write(lambda tx: _pair(tx, code, role, here=here), at=now)


def reject_unknown_person(
    event_key: str, raw: str, inbound: Inbound, key: str, problem: str, *, make_code: Callable[[], str] | None
) -> Transaction[PairingRefusal]:
    """Store an unknown person's event as rejected. Send them a code, if codes are made and none was sent lately.

    The same event again changes nothing, and further events get no code for a while.
    """

    def transaction(tx: Tx) -> PairingRefusal:
        if not inbox.reject(tx, event_key, raw[:MAX_RAW_CHARACTERS], problem):
            return "again"
        return "silent" if make_code is None else _offer_code(tx, inbound, key, make_code())

    return transaction


def _offer_code(tx: Tx, inbound: Inbound, key: str, code: str) -> PairingRefusal:
    platform, person = inbound.address.platform, inbound.sender
    tx.run("DELETE FROM pairings WHERE expires_at < :long_ago", long_ago=tx.time - CODE_LIFETIME_MS)
    _restart_future_codes(tx)
    mine = tx.one(_OWN_REQUEST, platform=platform, person=person.id)
    if mine is not None and tx.time - mine[1] < CODE_INTERVAL_MS:
        return "quiet"
    others = tx.one(_COUNT_OTHER_OPEN, platform=platform, person=person.id, now=tx.time)
    if others and others[0] >= MAX_OPEN_CODES:
        return "full"
    request = mine[0] if mine else tx.ids.new("pair")
    tx.run(
        _SAVE_REQUEST,
        id=request,
        platform=platform,
        person=person.id,
        name=person.name,
        key=key,
        digest=code_digest(code),
        now=tx.time,
        until=tx.time + CODE_LIFETIME_MS,
    )
    assert request.startswith(outbox.PAIRING_PREFIX), "or else the code would be shown to others"
    notice = OutboxReply(
        inbound.address, f"{request}.{tx.time}", (texts.people.pairing_code(code),), inbound.message
    )
    outbox.enqueue(tx, key, None, notice)
    return "told"


_OWN_REQUEST = "SELECT id, asked_at FROM pairings WHERE platform = :platform AND person = :person"
_COUNT_OTHER_OPEN = (
    "SELECT count(*) FROM pairings WHERE platform = :platform AND person <> :person AND expires_at > :now"
)
_SAVE_REQUEST = (
    "INSERT INTO pairings (id, platform, person, name, key, digest, asked_at, expires_at) "
    "VALUES (:id, :platform, :person, :name, :key, :digest, :now, :until) ON CONFLICT (platform, person) "
    "DO UPDATE SET name = excluded.name, key = excluded.key, digest = excluded.digest, "
    "asked_at = excluded.asked_at, expires_at = excluded.expires_at"
)


def _restart_future_codes(tx: Tx) -> None:
    """Restart the lifetime of codes that were asked for in the future: the clock was set back."""
    sql = "UPDATE pairings SET asked_at = :now, expires_at = :until WHERE asked_at > :now"
    tx.run(sql, now=tx.time, until=tx.time + CODE_LIFETIME_MS)


def _pair(tx: Tx, code: str, role: Role, *, here: bool) -> PairingResult:
    tx.run(
        "DELETE FROM pair_tries WHERE at <= :long_ago OR at > :now",
        long_ago=tx.time - WRONG_CODES_WINDOW_MS,
        now=tx.time,
    )
    tries = tx.all("SELECT at FROM pair_tries ORDER BY at DESC")
    if len(tries) >= MAX_WRONG_CODES:
        return PairingResult("limited", again_at=tries[MAX_WRONG_CODES - 1][0] + WRONG_CODES_WINDOW_MS)
    _restart_future_codes(tx)
    request = _find_request(tx, code)
    if request is None:
        tx.run("INSERT INTO pair_tries (id, at) VALUES (:id, :now)", id=tx.ids.new("try"), now=tx.time)
        return PairingResult("wrong")
    if request.expires_at <= tx.time:
        return PairingResult("expired")
    address = split_session_key(request.key)[1]
    chat = address.chat if here else EVERYWHERE
    person = Person(request.platform, request.person, request.name, role, tx.time, chat)
    people.admit(tx, person)
    tx.run("DELETE FROM pairings WHERE id = :id", id=request.id)
    outbox.enqueue(tx, request.key, None, OutboxReply(address, f"{request.id}.paired", (texts.people.PAIRED,)))
    return PairingResult("paired", person, request.key)


def _find_request(tx: Tx, code: str) -> PairingRequest | None:
    """Return the request of a code. All are compared, each in constant time, so that the time tells nothing."""
    digest, found = code_digest(code), None
    for row in tx.all(f"SELECT digest, {_COLUMNS} FROM pairings ORDER BY id{tx.for_update}"):
        if hmac.compare_digest(row[0], digest):
            found = PairingRequest(*row[1:])
    return found
