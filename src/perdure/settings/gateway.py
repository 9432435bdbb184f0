"""Settings of the gateway itself: its database, its web server, unknown people, and how long things are kept."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.settings.value_types import DatabaseUrl, Duration, Host, LeaseLength, PollInterval, PositiveCount


class StoreSettings(msgspec.Struct, frozen=True):
    """Where everything is kept."""

    url: Annotated[
        DatabaseUrl | None,
        Meta(
            description="A SQLite file (a relative path starts in the home directory), or PostgreSQL.",
            examples=["sqlite:///perdure.db"],
            extra={
                "expected": "sqlite:///FILE or postgresql://USER@HOST/DATABASE",
                "default": "sqlite:///<home>/perdure.db",
                "secret": "password",
            },
        ),
    ] = None

    lease: Annotated[
        LeaseLength,
        Meta(
            description="How long a gateway may make no heartbeat before others on the same PostgreSQL database "
            "take over its conversations. It makes six in that time.",
        ),
    ] = 30.0
    poll: Annotated[
        PollInterval,
        Meta(
            description="How often a gateway looks by itself for work of which no wake-up has told it. Gateways "
            "on one PostgreSQL database wake each other; a lost wake-up delays its work by at most this long.",
        ),
    ] = 5.0

    # The URL may hold a password, and settings end up in logs and tracebacks.
    def __repr__(self) -> str:
        return "StoreSettings(url=(hidden))"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("url", "(hidden)")]


class WebSettings(msgspec.Struct, frozen=True):
    """Where the web chat, the console and the HTTP API listen."""

    host: Annotated[
        Host,
        Meta(description="The address to listen on. Only loopback addresses stay private to this machine."),
    ] = "127.0.0.1"
    port: Annotated[
        int,
        Meta(
            ge=0,
            le=65535,
            description="The port to listen on; 0 takes any free one. A busy port is an error.",
        ),
    ] = 8420
    names: Annotated[
        list[Host],
        Meta(
            description="Names under which browsers reach the gateway, such as that of a reverse proxy before it. "
            "While it listens on loopback, or if there are any, others than `localhost` are refused.",
            examples=[["perdure.example.org"]],
        ),
    ] = msgspec.field(default_factory=list)
    proxies: Annotated[
        list[str],
        Meta(
            description="Addresses or networks of reverse proxies before the gateway. `X-Forwarded-For` and "
            "`X-Forwarded-Proto` are believed from these alone, and connections of one of them are not limited as "
            "those of one address.",
            examples=[["127.0.0.1", "10.0.0.0/8"]],
            extra={"expected": "a list of IP addresses or networks"},
        ),
    ] = msgspec.field(default_factory=list)
    max_connections: Annotated[
        PositiveCount,
        Meta(
            description="How many connections may be open at once; never more than half of the files that the "
            "process may open. A quarter of them, and at most 256, may come from one address without a login; if "
            "there are more, the one that has waited longest is closed."
        ),
    ] = 2000
    request_timeout: Annotated[
        Duration,
        Meta(
            description="How long a client may take to send the head of a request, and how long a body may stop "
            "coming, before the connection is closed."
        ),
    ] = 20.0

    def __post_init__(self) -> None:
        for proxy in self.proxies:
            ip_network(proxy, strict=False)  # a ValueError, which becomes a problem of this setting


class AccessSettings(msgspec.Struct, frozen=True):
    """What becomes of people whom nobody knows."""

    unknown: Annotated[
        Literal["pair", "ignore"],
        Meta(
            description="Somebody unknown who writes in a direct chat is told a code, with which `perdure pair` "
            "lets them in (`pair`), or nothing (`ignore`). In a group they are always told nothing."
        ),
    ] = "pair"


class RetentionSettings(msgspec.Struct, frozen=True):
    """How long conversations are kept."""

    age: Annotated[
        Duration | None,
        Meta(
            description="A conversation in which nothing has happened for so long is erased with all that belongs "
            "to it, and so are events that came to nothing; none, or 0, means that everything is kept.",
            examples=["90d"],
        ),
    ] = None
