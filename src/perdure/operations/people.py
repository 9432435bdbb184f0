"""People, for whoever runs the gateway: who is known, who asks to be let in, and the verbs that change that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from perdure.core.address import join_parts, parse_session_key, split_parts
from perdure.core.notes import ago
from perdure.core.people import ROLES, Role
from perdure.errors import BadPerson, NotFound, TooManyTries
from perdure.settings import Settings
from perdure.store.admission import Admission
from perdure.store.api import Store, open_database
from perdure.store.ids import Clock, wall_clock
from perdure.store.pairings import Request
from perdure.store.people import EVERYWHERE, Person

T = TypeVar("T")

PAGE = 100
FORM = "PLATFORM:ID, such as telegram:1234"


class Change(Struct, frozen=True):
    """What a verb has done: whether anything has changed, for whom, and the words that say so."""

    done: bool
    said: str
    who: str = ""
    key: str = ""  # of a chat that is told of it


class Register:
    """The verbs. Each is one transaction; whoever loses a right loses what waits of theirs in the same one."""

    def __init__(self, settings: Settings, store: Store, clock: Clock = wall_clock) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._admission = Admission(settings.lists)

    # ── looking ─────────────────────────────────────────────────────────────────────────────────────────────

    async def page(self, after: str = "", limit: int = PAGE) -> dict[str, Any]:
        """People by name, in order, behind the one named; with the first page, who else there is."""
        platform, person, chat = [*split_parts(after), "", "", ""][:3]
        found = await self._store.people.page((platform, person, chat), limit + 1)
        shown = {"people": [fields(each) for each in found[:limit]], "more": len(found) > limit}
        return shown if after else shown | {"configured": self._configured(), "requests": await self._requests()}

    def _configured(self) -> list[dict[str, str]]:
        """Whom the configuration lets in, and as what."""
        found = []
        for name in self._settings.all_platforms:
            lists = self._settings.lists(name)
            found += [_configured(name, owner, "owner") for owner in sorted(lists.owners)]
            for chat, people in sorted(lists.chats.items()):
                found += [_configured(name, person, "member", chat) for person in sorted(people)]
            found += [_configured(name, "*", "member")] if lists.everybody else []
        return found

    async def _requests(self) -> list[dict[str, Any]]:
        return [_request(each) for each in await self._store.pairings.open(self._clock())]

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────

    async def pair(self, code: str, role: str = "member", *, here: bool = False) -> Change:
        """Let in whoever was told that code."""
        now = self._clock()
        paired = await self._store.pairings.pair(code, _role(role), now, here=here)
        if paired.outcome == "limited":
            raise TooManyTries(
                "too many wrong codes were tried lately",
                hint=f"Try again in {ago(paired.again_at - now)}; by then, they may have to ask for a new code.",
            )
        if paired.outcome == "expired":
            raise NotFound("that code has expired", hint="Let them write to the agent again: they get a new one.")
        if paired.person is None:
            raise NotFound("nobody was told that code", hint="Look whether it is spelled right: ABCD-EFGH, say.")
        who = name_of(paired.person)
        return Change(
            True, f"{_titled(paired.person)} is now {_a(role)}{_where(paired.person.chat)}.", who, paired.key
        )

    async def add(self, who: str, role: str = "member", chat: str = EVERYWHERE, name: str = "") -> Change:
        """Let somebody in by name, or give them another role."""
        platform, person = read_name(who)
        known = await self._store.people.find(platform, person, chat)
        added = Person(platform, person, name or (known.name if known else ""), _role(role), self._clock(), chat)
        await self._store.people.admit(added, self._sweep())
        return Change(True, f"{_titled(added)} is now {_a(role)}{_where(chat)}.{self._outranked(added)}", who)

    async def role(self, who: str, role: str, chat: str = EVERYWHERE) -> Change:
        """Give somebody who is known another role."""
        platform, person = read_name(who)
        if await self._store.people.find(platform, person, chat) is None:
            raise NotFound(
                f"{who} is not known by name{_where(chat)}",
                hint="`perdure people` lists who is; `add` lets them in.",
            )
        return await self.add(who, role, chat)

    async def remove(self, who: str, chat: str | None = None) -> Change:
        """Make somebody unknown, in one chat or wherever they were known; what waits of theirs is put away."""
        platform, person = read_name(who)
        gone = await self._store.people.remove(platform, person, chat, self._sweep())
        listed = self._still_in(platform, person)
        said = f"{who} is removed." if gone else f"{who} was not known by name."
        return Change(gone, f"{said}{listed}", who)

    def _sweep(self) -> Callable[..., int]:
        return self._admission.sweep(self._store.ids, self._clock())

    def _still_in(self, platform: str, person: str) -> str:
        lists = self._settings.lists(platform)
        if person in lists.owners or any(person in people for people in lists.chats.values()):
            return f" The configuration lists them too: see platforms.{platform}.allow and allow_chats."
        return f" They are still let in: platforms.{platform}.allow has a `*`." if lists.everybody else ""

    def _outranked(self, person: Person) -> str:
        owner = person.person in self._settings.lists(person.platform).owners and person.role != "owner"
        return f" But platforms.{person.platform}.allow makes them an owner." if owner else ""


# ── words and names ─────────────────────────────────────────────────────────────────────────────────────────


def name_of(person: Person) -> str:
    return join_parts(person.platform, person.person)


def read_name(who: str) -> tuple[str, str]:
    """Read what `perdure people` shows: a platform, and an id on it, which may hold colons of its own."""
    platform, colon, person = who.partition(":")
    person = split_parts(person)[0] if ":" not in person else person
    if not (platform and colon and person) or "\0" in who:
        raise BadPerson(f"{who!r} names nobody", hint=f"Write it as {FORM}; `perdure people` shows the names.")
    return platform, person


def _role(word: str) -> Role:
    for role in ROLES:
        if word == role:
            return role
    raise BadPerson(f"{word!r} is no role", hint=f"The roles are {', '.join(ROLES)}.")


def _a(role: str) -> str:
    return f"an {role}" if role == "owner" else f"a {role}"


def _titled(person: Person) -> str:
    who = name_of(person)
    return f"{person.name} ({who})" if person.name else who


def _where(chat: str) -> str:
    return f" in chat {chat}" if chat else ""


def fields(person: Person) -> dict[str, Any]:
    """A person under the names that their JSON has; `after` of the next page is the last one's `place`."""
    place = join_parts(person.platform, person.person, person.chat)
    return {"who": name_of(person), **msgspec.to_builtins(person), "chat": person.chat or None, "place": place}


def _configured(platform: str, person: str, role: str, chat: str = "") -> dict[str, Any]:
    return {"platform": platform, "person": person, "role": role, "chat": chat or None}


def _request(request: Request) -> dict[str, Any]:
    address = parse_session_key(request.key)[1]
    named = {"who": join_parts(request.platform, request.person), "platform": request.platform}
    shown = {name: getattr(request, name) for name in ("id", "person", "name", "asked_at", "expires_at")}
    return named | shown | {"chat": address.chat}


def lines(page: dict[str, Any], now: int) -> list[str]:
    """Everybody, one line each."""
    known = [_line(each, f"since {_day(each['added_at'])}") for each in page["people"]]
    listed = [
        _line({"who": _anybody(each), **each, "name": ""}, "by configuration") for each in page["configured"]
    ]
    asking = [_asking(each, now) for each in page["requests"]]
    return [*listed, *known, *asking]


def _line(each: dict[str, Any], since: str) -> str:
    name = f"  {each['name']}" if each["name"] else ""
    return f"{each['role']:7} {each['who']}{name}{_where(each['chat'] or '')}  {since}"


def _anybody(each: dict[str, Any]) -> str:
    return (
        f"{each['platform']}:{each['person']}" if each["person"] != "*" else f"{each['platform']}: everybody else"
    )


def _asking(each: dict[str, Any], now: int) -> str:
    name = f"  {each['name']}" if each["name"] else ""
    return (
        f"asks    {each['who']}{name}  {ago(now - each['asked_at'])} ago, "
        f"for {ago(each['expires_at'] - now)} more: perdure pair CODE lets them in"
    )


def _day(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


# ── without a gateway ───────────────────────────────────────────────────────────────────────────────────────


async def by_hand(settings: Settings, act: Callable[[Register], Awaitable[T]]) -> T:
    """Act on the database itself, which no gateway may be using; what is to be said is said at its next start."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(await open_database(settings.store_url, home=settings.home))
    try:
        return await act(Register(settings, store))
    finally:
        await store.close()
