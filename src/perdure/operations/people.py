"""People for operators: who is let in, who asks to be, and the verbs `pair`, `add`, `role` and `remove`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import join_parts, split_parts, split_session_key
from perdure.core.roles import ROLES, Role
from perdure.errors import BadPerson, NotFound, TooManyTries
from perdure.operations.resources import (
    ConfiguredPersonResource,
    PairingRequestResource,
    PeopleResponse,
    PersonResource,
    cut_page,
)
from perdure.settings import Settings
from perdure.store.api import Store, open_database
from perdure.store.authorisation import Authorisation
from perdure.store.ids import Clock, wall_clock
from perdure.store.pairings import PairingRequest
from perdure.store.people import EVERYWHERE, Person

T = TypeVar("T")

PAGE_SIZE = 100
PERSON_ID_FORM = "PLATFORM:ID, such as telegram:1234"


class PeopleChange(Struct, frozen=True):
    """The result of a verb: whether anything changed, for whom, and the sentence that says so."""

    done: bool
    said: str
    who: str = ""
    key: str = ""  # the session key of the chat that is notified


class PeopleVerbs:
    """Verbs on people: each is one transaction, which also rejects waiting messages of whoever loses a right."""

    def __init__(self, settings: Settings, store: Store, clock: Clock = wall_clock) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        self._authorisation = Authorisation(
            settings.allow_lists, per_person=settings.groups_per_person, tools=settings.tools_by_role
        )

    # ── reading ────────────────────────────────────────────────────────────────────────────────────────────

    async def page(self, after: str = "", limit: int = PAGE_SIZE) -> PeopleResponse:
        """A page of the people let in by name, behind the cursor; the first page also has everybody else."""
        platform, person, chat = [*split_parts(after), "", "", ""][:3]
        found = await self._store.people.page((platform, person, chat), limit + 1)
        people, more = cut_page(found, limit)
        shown = [person_resource(each) for each in people]
        if after:
            return PeopleResponse(shown, more)
        return PeopleResponse(shown, more, self._configured_people(), await self._pairing_requests())

    def _configured_people(self) -> list[ConfiguredPersonResource]:
        """The people whom the configuration lets in, and their roles."""
        found = []
        for name in self._settings.all_platforms:
            lists = self._settings.allow_lists(name)
            found += [ConfiguredPersonResource(name, owner, "owner", None) for owner in sorted(lists.owners)]
            for chat, people in sorted(lists.chats.items()):
                found += [
                    ConfiguredPersonResource(name, person, "member", chat or None) for person in sorted(people)
                ]
            found += [ConfiguredPersonResource(name, "*", "member", None)] if lists.everybody else []
        return found

    async def _pairing_requests(self) -> list[PairingRequestResource]:
        return [_pairing_request(each) for each in await self._store.pairings.open_requests(self._clock())]

    # ── changing ────────────────────────────────────────────────────────────────────────────────────────────

    async def pair(self, code: str, role: str = "member", *, here: bool = False) -> PeopleChange:
        """Let in the person who was given this pairing code."""
        now = self._clock()
        paired = await self._store.pairings.pair(code, _parse_role(role), now, here=here)
        if paired.outcome == "limited":
            raise TooManyTries(
                "too many wrong codes were tried lately",
                hint=(
                    f"Try again in {texts.phrases.duration(paired.again_at - now)}; by then, they may have to ask "
                    "for a new code."
                ),
            )
        if paired.outcome == "expired":
            raise NotFound("that code has expired", hint="Let them write to the agent again: they get a new one.")
        if paired.person is None:
            raise NotFound("nobody was told that code", hint="Look whether it is spelled right: ABCD-EFGH, say.")
        who = person_id(paired.person)
        return PeopleChange(
            True,
            f"{_display_name(paired.person)} is now {_with_article(role)}{_in_chat(paired.person.chat)}.",
            who,
            paired.key,
        )

    async def add(self, who: str, role: str = "member", chat: str = EVERYWHERE, name: str = "") -> PeopleChange:
        """Let a person in by name, or give them another role."""
        platform, person = parse_person_id(who)
        known = await self._store.people.find(platform, person, chat)
        added = Person(
            platform, person, name or (known.name if known else ""), _parse_role(role), self._clock(), chat
        )
        await self._store.people.admit(added, self._withdraw_waiting())
        return PeopleChange(
            True,
            f"{_display_name(added)} is now "
            f"{_with_article(role)}{_in_chat(chat)}.{self._configured_owner_notice(added)}",
            who,
        )

    async def role(self, who: str, role: str, chat: str = EVERYWHERE) -> PeopleChange:
        """Give another role to a person who was let in by name."""
        platform, person = parse_person_id(who)
        if await self._store.people.find(platform, person, chat) is None:
            raise NotFound(
                f"{who} is not known by name{_in_chat(chat)}",
                hint="`perdure people` lists who is; `add` lets them in.",
            )
        return await self.add(who, role, chat)

    async def remove(self, who: str, chat: str | None = None) -> PeopleChange:
        """Remove a person, from one chat or from everywhere; their waiting messages are rejected."""
        platform, person = parse_person_id(who)
        removed = await self._store.people.remove(platform, person, chat, self._withdraw_waiting())
        listed = self._still_allowed_notice(platform, person)
        said = f"{who} is removed." if removed else f"{who} was not known by name."
        return PeopleChange(removed, f"{said}{listed}", who)

    def _withdraw_waiting(self) -> Callable[..., int]:
        return self._authorisation.reject_unauthorised()

    def _still_allowed_notice(self, platform: str, person: str) -> str:
        lists = self._settings.allow_lists(platform)
        if person in lists.owners or any(person in people for people in lists.chats.values()):
            return f" The configuration lists them too: see platforms.{platform}.allow and allow_chats."
        return f" They are still let in: platforms.{platform}.allow has a `*`." if lists.everybody else ""

    def _configured_owner_notice(self, person: Person) -> str:
        owner = person.person in self._settings.allow_lists(person.platform).owners and person.role != "owner"
        return f" But platforms.{person.platform}.allow makes them an owner." if owner else ""


# ── words and names ─────────────────────────────────────────────────────────────────────────────────────────


def person_id(person: Person) -> str:
    return join_parts(person.platform, person.person)


def parse_person_id(who: str) -> tuple[str, str]:
    """Split `PLATFORM:ID`, as `perdure people` shows it; the id may hold colons of its own."""
    platform, colon, person = who.partition(":")
    person = split_parts(person)[0] if ":" not in person else person
    if not (platform and colon and person) or "\0" in who:
        raise BadPerson(
            f"{who!r} names nobody", hint=f"Write it as {PERSON_ID_FORM}; `perdure people` shows the names."
        )
    return platform, person


def _parse_role(word: str) -> Role:
    for role in ROLES:
        if word == role:
            return role
    raise BadPerson(f"{word!r} is no role", hint=f"The roles are {', '.join(ROLES)}.")


def _with_article(role: str) -> str:
    return f"an {role}" if role == "owner" else f"a {role}"


def _display_name(person: Person) -> str:
    who = person_id(person)
    return f"{person.name} ({who})" if person.name else who


def _in_chat(chat: str) -> str:
    return f" in chat {chat}" if chat else ""


def person_resource(person: Person) -> PersonResource:
    return PersonResource(
        who=person_id(person),
        platform=person.platform,
        person=person.person,
        name=person.name,
        role=person.role,
        added_at=person.added_at,
        chat=person.chat or None,
        place=join_parts(person.platform, person.person, person.chat),
    )


def _pairing_request(request: PairingRequest) -> PairingRequestResource:
    return PairingRequestResource(
        who=join_parts(request.platform, request.person),
        platform=request.platform,
        id=request.id,
        person=request.person,
        name=request.name,
        asked_at=request.asked_at,
        expires_at=request.expires_at,
        chat=split_session_key(request.key)[1].chat,
    )


def people_lines(page: PeopleResponse, now: int) -> list[str]:
    """Everybody on the first page, one line each."""
    return [
        *map(_configured_line, page.configured or ()),
        *map(_person_line, page.people),
        *(_request_line(each, now) for each in page.requests or ()),
    ]


def _person_line(each: PersonResource) -> str:
    name = f"  {each.name}" if each.name else ""
    return f"{each.role:7} {each.who}{name}{_in_chat(each.chat or '')}  since {_format_time(each.added_at)}"


def _configured_line(each: ConfiguredPersonResource) -> str:
    who = f"{each.platform}:{each.person}" if each.person != "*" else f"{each.platform}: everybody else"
    return f"{each.role:7} {who}{_in_chat(each.chat or '')}  by configuration"


def _request_line(each: PairingRequestResource, now: int) -> str:
    name = f"  {each.name}" if each.name else ""
    return (
        f"asks    {each.who}{name}  {texts.phrases.duration(now - each.asked_at)} ago, "
        f"for {texts.phrases.duration(each.expires_at - now)} more: perdure pair CODE lets them in"
    )


def _format_time(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M")


# ── without a gateway ───────────────────────────────────────────────────────────────────────────────────────


async def without_gateway(settings: Settings, change: Callable[[PeopleVerbs], Awaitable[T]]) -> T:
    """Apply a verb to the database while no gateway runs; its next start sends the notifications."""
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    store = Store(await open_database(settings.store_url, home=settings.home))
    try:
        return await change(PeopleVerbs(settings, store))
    finally:
        await store.close()
