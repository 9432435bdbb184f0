"""Every setting: its name, its type, its default and what it means. `perdure.config` reads them.

These Structs are the only list of settings there is: what is accepted, what an error says was expected, and
the reference in the documentation all come from here. A Struct holds settings or sections, never both. A float
is always a duration in seconds. In `Meta`, `extra` may hold `expected` (the type in words, where the type
alone does not say it), `default` (the default in words) and `secret` (the value is never shown, and left out of
logs; `"password"`: of a URL, its password is left out of logs).
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from perdure.core.queue import QueueRules
from perdure.core.roles import DEFAULT_TOOLS_BY_ROLE, EVERYBODY, TOKEN_HOLDER, AllowLists, ToolsByRole
from perdure.core.states import ResumePolicy
from perdure.settings.agent import AgentSettings, McpServerSettings, ModelSettings, ToolsSettings
from perdure.settings.gateway import AccessSettings, RetentionSettings, StoreSettings, WebSettings
from perdure.settings.platforms import (
    PlatformSettings,
    PlatformsSettings,
    PluginPlatformSettings,
    TelegramSettings,
)
from perdure.settings.recovery import DrainSettings, HandoverSettings, RecoverySettings
from perdure.settings.turns import (
    AttachmentSettings,
    BackgroundSettings,
    DeliverySettings,
    GoalSettings,
    InboxSettings,
    NotifySettings,
    QueueSettings,
    SessionSettings,
    TurnSettings,
)
from perdure.settings.value_types import DURATION_EXPECTED, MAX_DURATION_SECONDS

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
    handover: HandoverSettings = HandoverSettings()
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
    def lease_ms(self) -> int:
        return int(self.store.lease * 1000)

    @property
    def max_file_bytes(self) -> int:
        """The most bytes of a file that a person sends."""
        return self.inbox.max_file * 1_000_000

    @property
    def max_attachment_bytes(self) -> int:
        """The most bytes of all files that people and the agent send."""
        return self.attachments.max_total * 1_000_000

    @property
    def shared_workspace(self) -> Path:
        """The directory in which the agent reads and writes the files of all chats, if they share one."""
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

    def tools_by_role(self, platform: str) -> ToolsByRole:
        """The tools of each role on a platform."""
        return {**DEFAULT_TOOLS_BY_ROLE, **self.tools.by_role, **self.platform(platform).tools_by_role}
