"""Every setting: its name, its type, its default and what it means. `perdure.config` reads them.

These Structs are the only list of settings there is: what is accepted, what an error says was expected, and
the reference in the documentation all come from here. A Struct holds settings or sections, never both. A float
is always a duration in seconds. In `Meta`, `extra` may hold `expected` (the type in words, where the type
alone does not say it), `default` (the default in words) and `secret` (the value is never shown, and left out of
logs; `"password"`: of a URL, its password is left out of logs).
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.core.delivery import UnknownSendPolicy
from perdure.core.queue import QueueRules
from perdure.core.roles import EVERYBODY, TOKEN_HOLDER, AllowLists
from perdure.core.session import ResumePolicy
from perdure.settings.agent import AgentSettings, McpServerSettings, ModelSettings, ToolsSettings
from perdure.settings.platforms import (
    PlatformSettings,
    PlatformsSettings,
    PluginPlatformSettings,
    TelegramSettings,
)
from perdure.settings.turns import (
    AttachmentSettings,
    BackgroundSettings,
    GoalSettings,
    InboxSettings,
    NotifySettings,
    QueueSettings,
    TurnSettings,
)
from perdure.settings.value_types import (
    DURATION_EXPECTED,
    MAX_DURATION_SECONDS,
    DatabaseUrl,
    Duration,
    Host,
    PositiveCount,
    TimeOfDay,
)

__all__ = [
    "DURATION_EXPECTED",
    "MAX_DURATION_SECONDS",
    "SQLITE_PREFIX",
    "AccessSettings",
    "AgentSettings",
    "DeliverySettings",
    "DrainSettings",
    "InboxSettings",
    "McpServerSettings",
    "ModelSettings",
    "PlatformSettings",
    "PluginPlatformSettings",
    "QueueSettings",
    "RecoverySettings",
    "ResumePolicy",
    "SessionSettings",
    "Settings",
    "TelegramSettings",
    "ToolsSettings",
]

SQLITE_PREFIX = "sqlite:///"


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


class SessionSettings(msgspec.Struct, frozen=True):
    """When a conversation is begun afresh by itself. The one before stays, and `/resume` brings it back."""

    idle: Annotated[
        Duration,
        Meta(
            description="A message that comes after so long a silence begins a fresh conversation; 0 means never.",
            examples=["12h"],
        ),
    ] = 0.0
    daily: Annotated[
        TimeOfDay | None,
        Meta(
            description="The first message after this time of the day, by this machine's clock, begins a fresh "
            "conversation.",
            examples=["04:00"],
        ),
    ] = None
    groups: Annotated[
        Literal["shared", "person"],
        Meta(
            description="In a group, everybody talks in one conversation (`shared`), or each person has one of "
            "their own (`person`). A guest always has one of their own."
        ),
    ] = "shared"


class DrainSettings(msgspec.Struct, frozen=True):
    """How a planned stop ends."""

    deadline: Annotated[
        Duration,
        Meta(description="How long a planned stop waits for running turns before it interrupts them."),
    ] = 20.0
    teardown: Annotated[
        Duration,
        Meta(description="How long all the rest of a stop may take before the process is ended the hard way."),
    ] = 20.0

    @property
    def max_seconds(self) -> float:
        """The most seconds that a stop takes."""
        return self.deadline + self.teardown


class RecoverySettings(msgspec.Struct, frozen=True):
    """What becomes of interrupted turns."""

    policy: Annotated[
        ResumePolicy,
        Meta(
            description="What becomes of an interrupted turn: it goes on by itself (`auto`), the chat is "
            "asked first (`ask`), or it is left to the people there (`off`)."
        ),
    ] = "auto"
    freshness: Annotated[
        Duration,
        Meta(description="A turn interrupted longer ago than this does not go on by itself; 0 means at any age."),
    ] = 3600.0
    concurrency: Annotated[PositiveCount, Meta(description="How many turns are recovered at the same time.")] = 4
    max_without_progress: Annotated[
        PositiveCount,
        Meta(description="After so many interruptions in a row without a new step, the session is suspended."),
    ] = 3
    max_interruptions: Annotated[
        PositiveCount, Meta(description="After so many interruptions of one turn, the session is suspended.")
    ] = 10
    max_tokens: Annotated[
        PositiveCount | None,
        Meta(description="The most tokens a turn may have used and still go on by itself.", examples=[200000]),
    ] = None


class DeliverySettings(msgspec.Struct, frozen=True):
    """How replies are sent."""

    unknown: Annotated[
        UnknownSendPolicy,
        Meta(
            description="A reply that may or may not have arrived is sent again with a mark (`resend`), "
            "or given up with a notice (`drop`)."
        ),
    ] = "resend"
    max_age: Annotated[Duration, Meta(description="A reply that could not be sent for this long expires.")] = (
        86400.0
    )


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


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that can be configured; `home` comes from PERDURE_HOME, never from the file."""

    home: Path
    store: StoreSettings = StoreSettings()
    web: WebSettings = WebSettings()
    agent: AgentSettings = AgentSettings()
    model: ModelSettings = ModelSettings()
    tools: ToolsSettings = ToolsSettings()
    session: SessionSettings = SessionSettings()
    turn: TurnSettings = TurnSettings()
    notify: NotifySettings = NotifySettings()
    goal: GoalSettings = GoalSettings()
    background: BackgroundSettings = BackgroundSettings()
    queue: QueueSettings = QueueSettings()
    inbox: InboxSettings = InboxSettings()
    attachments: AttachmentSettings = AttachmentSettings()
    drain: DrainSettings = DrainSettings()
    recovery: RecoverySettings = RecoverySettings()
    delivery: DeliverySettings = DeliverySettings()
    retention: RetentionSettings = RetentionSettings()
    access: AccessSettings = AccessSettings()
    platforms: PlatformsSettings = PlatformsSettings()
    plugged: dict[str, PluginPlatformSettings] = {}  # the sections `platforms.NAME` of platforms of other packages

    @property
    def store_url(self) -> str:
        """The database's URL; after `sqlite:///` stands an absolute path."""
        url = self.store.url or f"{SQLITE_PREFIX}perdure.db"
        if not url.startswith(SQLITE_PREFIX):
            return url
        return f"{SQLITE_PREFIX}{self.home / url.removeprefix(SQLITE_PREFIX)}"

    @property
    def max_file_bytes(self) -> int:
        """The most bytes of a file that a person sends."""
        return self.inbox.max_file * 1_000_000

    @property
    def max_attachment_bytes(self) -> int:
        """The most bytes of all files that people and the agent send."""
        return self.attachments.max_total * 1_000_000

    @property
    def workspace(self) -> Path:
        """The directory in which the agent reads and writes files."""
        return self.home / (self.tools.directory or "workspace")

    def platform(self, name: str) -> PlatformSettings:
        """The settings of a platform; the defaults for a platform without settings, such as one of a test."""
        return self.all_platforms.get(name, PlatformSettings())

    @property
    def all_platforms(self) -> dict[str, PlatformSettings]:
        """The settings of every platform: those of this version, and configured ones of other packages."""
        return {**msgspec.structs.asdict(self.platforms), **self.plugged}

    @property
    def queue_rules(self) -> QueueRules:
        """The queue rules by these settings."""
        quiet, age = int(self.queue.quiet * 1000), int(self.inbox.max_age * 1000)
        return QueueRules(self.queue.mode, self.queue.cap, quiet, age, await_files=True)

    def recovery_policy(self, platform: str, chat: str) -> ResumePolicy:
        """The resume policy of a chat: its own, that of its platform, or the general one."""
        settings = self.platform(platform)
        return settings.recovery_chats.get(chat) or settings.recovery or self.recovery.policy

    def allow_lists(self, platform: str) -> AllowLists:
        """The people whom the configuration lets in on a platform."""
        settings = self.platform(platform)
        holder = {TOKEN_HOLDER.id} if platform == "web" else set()
        return AllowLists(
            owners=frozenset({*settings.allow, *holder} - {EVERYBODY}),
            chats={chat: frozenset(people) for chat, people in settings.allow_chats.items()},
            everybody=EVERYBODY in settings.allow,
        )
