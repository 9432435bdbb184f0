"""Logins in the store: a token with its cookies, on both databases, also beside a gateway that runs.

Drives `store/logins` and `store/backends/read_only`.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from perdure.core.logins import ALL_SCOPES, Login, LoginKind, Scope
from perdure.core.messages import Sender
from perdure.core.roles import Role
from perdure.store.api import Store
from perdure.store.backends.read_only import open_beside_gateway
from perdure.store.database import Tx
from perdure.store.logins import USE_INTERVAL_MS, StoredLogin, new_token, token_digest
from perdure.testing import SettableClock
from support.store_gateway import StoreGateway

pytestmark = pytest.mark.anyio

ANN = Login("", "phone", Sender("ann", "Ann"), frozenset((Scope.READ, Scope.CHAT)), "owner")
HOME = Login("", "home", Sender("owner"), ALL_SCOPES, "owner")
HOUR_SECONDS = 3600
MONTH_MS = 30 * 86_400_000


def role_of(_: Tx, person: Sender) -> Role | None:
    return "owner" if person.id in ("ann", "owner") else None


async def find(gateway: StoreGateway, digest: str, kind: LoginKind = LoginKind.TOKEN) -> StoredLogin | None:
    found = await gateway.store.logins.find(digest, kind, role_of)
    return found[0] if found else None


async def added(gateway: StoreGateway, login: Login = ANN, expires_at: int | None = None) -> StoredLogin:
    assert await gateway.store.logins.add(login, f"digest of {login.name}", expires_at)
    found = await find(gateway, f"digest of {login.name}")
    assert found is not None
    return found


async def home(gateway: StoreGateway) -> Login:
    """The login by the token of a gateway's home."""
    return replace(HOME, id=await gateway.store.logins.record_home("abc", HOME, "digest of home"))


async def with_settable_clock(gateway: StoreGateway) -> SettableClock:
    gateway.clock = clock = SettableClock()
    await gateway.reopen()
    return clock


def test_tokens_are_random_and_only_such_have_a_digest() -> None:
    one, other = new_token(), new_token()
    assert one != other
    assert token_digest(one) != token_digest(other)
    for wrong in ("", one[:-1], f"{one}x", one.replace("_", "-", 1), f"{one[:-1]}é"):
        assert token_digest(wrong) is None, wrong


async def test_login_is_found_by_its_digest_and_kind_and_outlives_the_gateway(gateway: StoreGateway) -> None:
    stored = await added(gateway)
    assert (stored.as_login("owner").name, stored.person, stored.scopes) == (ANN.name, ANN.person, ANN.scopes)
    await gateway.reopen()
    assert await find(gateway, "digest of phone") == stored
    assert await find(gateway, "digest of phone", LoginKind.COOKIE) is None
    assert await find(gateway, "another digest") is None


async def test_login_of_a_person_who_is_out_is_not_found(gateway: StoreGateway) -> None:
    assert await gateway.store.logins.add(Login("", "x", Sender("eve"), ALL_SCOPES, "owner"), "digest")
    assert await find(gateway, "digest") is None


async def test_name_is_taken_until_its_login_has_expired(gateway: StoreGateway) -> None:
    clock = await with_settable_clock(gateway)
    logins = gateway.store.logins
    await added(gateway, expires_at=clock() + HOUR_SECONDS * 1000)
    assert not await logins.add(ANN, "again")
    clock.move(HOUR_SECONDS)
    assert await find(gateway, "digest of phone") is None
    assert await logins.add(ANN, "again")
    assert [each.name for each in await logins.tokens()] == ["phone"]


async def test_cookie_has_what_its_token_has_and_goes_with_it(gateway: StoreGateway) -> None:
    logins, token = gateway.store.logins, await added(gateway)
    await logins.add_cookie(token.as_login("owner"), "cookie", MONTH_MS)
    await logins.add_cookie(await home(gateway), "cookie of the home", MONTH_MS)
    cookie = await find(gateway, "cookie", LoginKind.COOKIE)
    assert cookie is not None
    assert (cookie.token, cookie.scopes, cookie.person) == (token.id, token.scopes, token.person)
    assert await logins.revoke("phone")
    assert not await logins.revoke("phone")
    assert await find(gateway, "cookie", LoginKind.COOKIE) is None
    left = await find(gateway, "cookie of the home", LoginKind.COOKIE)
    assert left is not None and left.as_login("owner").name == "home"
    assert [each.name for each in await logins.tokens()] == ["home:abc"]


async def test_b165_token_of_a_home_is_a_row_until_the_home_has_another_one(gateway: StoreGateway) -> None:
    logins = gateway.store.logins
    first = await home(gateway)
    assert await home(gateway) == first, "the same token again"
    await logins.add_cookie(first, "cookie", MONTH_MS)
    found = await find(gateway, "digest of home")
    assert found is not None and (found.as_login("owner"), found.name) == (first, "home:abc")
    fewer = HOME.scopes - {Scope.APPROVE}
    await logins.record_home("abc", replace(HOME, scopes=fewer), "digest of home")
    cookie = await find(gateway, "cookie", LoginKind.COOKIE)
    assert cookie is not None and cookie.scopes == fewer, "a cookie follows its token"
    await logins.record_home("def", HOME, "digest of home")
    assert [(each.name, each.scopes) for each in await logins.tokens()] == [("home:abc", fewer)], "homes share it"
    await logins.record_home("abc", HOME, "digest of another")
    assert await find(gateway, "digest of home") is None
    assert await find(gateway, "cookie", LoginKind.COOKIE) is None


async def test_cookie_ends_with_its_token_or_after_its_time(gateway: StoreGateway) -> None:
    clock = await with_settable_clock(gateway)
    logins = gateway.store.logins
    token = await added(gateway, expires_at=clock() + HOUR_SECONDS * 1000)
    await logins.add_cookie(token.as_login("owner"), "short", MONTH_MS)
    of_home = await home(gateway)
    await logins.add_cookie(of_home, "long", MONTH_MS)
    clock.move(HOUR_SECONDS)
    assert await find(gateway, "short", LoginKind.COOKIE) is None
    assert await find(gateway, "long", LoginKind.COOKIE) is not None
    clock.move(MONTH_MS / 1000)
    assert await find(gateway, "long", LoginKind.COOKIE) is None
    await logins.add_cookie(of_home, "new", MONTH_MS)
    assert await gateway.query("SELECT digest FROM logins WHERE kind = 'cookie'") == [("new",)], "others are gone"


async def test_no_cookie_is_stored_for_a_token_that_was_revoked_meanwhile(gateway: StoreGateway) -> None:
    token = await added(gateway)
    await gateway.store.logins.revoke("phone")
    await gateway.store.logins.add_cookie(token.as_login("owner"), "late", MONTH_MS)
    assert await gateway.query("SELECT * FROM logins") == []


async def test_logout_removes_one_cookie_and_never_a_token(gateway: StoreGateway) -> None:
    logins, token = gateway.store.logins, await added(gateway)
    for digest in ("one", "other"):
        await logins.add_cookie(token.as_login("owner"), digest, MONTH_MS)
    await logins.remove_cookie("one")
    await logins.remove_cookie("digest of phone")
    assert await find(gateway, "one", LoginKind.COOKIE) is None
    assert await find(gateway, "other", LoginKind.COOKIE) is not None
    assert await find(gateway, "digest of phone") is not None


async def test_last_use_is_written_once_in_a_while(gateway: StoreGateway) -> None:
    logins, token = gateway.store.logins, await added(gateway)
    times = []
    for now in (USE_INTERVAL_MS, 2 * USE_INTERVAL_MS - 1, 2 * USE_INTERVAL_MS):
        await logins.record_use(token, now)
        token = next(iter(await logins.tokens()))
        times.append(token.last_used_at)
    assert times == [USE_INTERVAL_MS, USE_INTERVAL_MS, 2 * USE_INTERVAL_MS]


async def test_login_is_added_and_revoked_beside_a_gateway_that_runs(gateway: StoreGateway) -> None:
    beside = Store(await open_beside_gateway(gateway.place.url))
    try:
        assert await beside.logins.add(ANN, "beside")
        assert await find(gateway, "beside") is not None
        assert not await gateway.store.logins.add(ANN, "twice")
        assert await beside.logins.revoke("phone")
        assert await find(gateway, "beside") is None
        await gateway.receives("the gateway still writes")
    finally:
        await beside.close()
