"""Settings of the platforms: what all have in common, and what is each one's own."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from perdure.core.roles import Role
from perdure.core.states import ResumePolicy
from perdure.settings.value_types import TOOLS_BY_ROLE_EXPECTED, ModelName, NonEmptyText, Secret, Url


class PlatformSettings(msgspec.Struct, frozen=True):
    """A platform: who may talk there, and what its chats see of a stop and of a recovery."""

    enabled: Annotated[bool, Meta(description="Whether the gateway uses this platform at all.")] = True
    allow: Annotated[
        list[NonEmptyText],
        Meta(
            description="The ids of the owners, as the platform spells them; `*` lets everybody else in, as "
            "members. On the web, whoever has the login token is an owner anyway.",
            examples=[["ann", "bob"]],
        ),
    ] = msgspec.field(default_factory=lambda: ["*"])
    allow_chats: Annotated[
        dict[NonEmptyText, list[NonEmptyText]],
        Meta(
            description="The members of single chats: the id of a chat, and the ids of people there. `*` lets "
            "everybody in; without it, nobody comes in there by the `*` of `allow`.",
            examples=[{"12": ["ann", "bob"]}],
        ),
    ] = {}
    recovery: Annotated[
        ResumePolicy | None,
        Meta(description="Like `recovery.policy`, which holds if there is none here.", examples=["ask"]),
    ] = None
    banner: Annotated[
        bool, Meta(description="Whether chats with a running turn are told that the gateway stops.")
    ] = True
    model: Annotated[
        ModelName | None,
        Meta(description="Like `model.name`, which holds if there is none here.", examples=["openai:gpt-5-mini"]),
    ] = None
    system_prompt: Annotated[
        str | None,
        Meta(
            description="Like `agent.system_prompt`, which holds if there is none here.",
            examples=["You are a patient librarian."],
        ),
    ] = None
    tools: Annotated[
        list[NonEmptyText] | None,
        Meta(description="Like `agent.tools`, which holds if there is none here.", examples=[["clarify"]]),
    ] = None
    tools_by_role: Annotated[
        dict[Role, list[NonEmptyText]],
        Meta(
            description="Like `tools.by_role`, which holds for the roles that are not named here.",
            examples=[{"guest": ["clarify", "fetch_url"]}],
            extra={"expected": TOOLS_BY_ROLE_EXPECTED},
        ),
    ] = {}
    recovery_chats: Annotated[
        dict[NonEmptyText, ResumePolicy],
        Meta(
            description="Like `recovery`, for single chats: the id of a chat, and what holds there.",
            examples=[{"12": "off", "13": "ask"}],
        ),
    ] = {}


class TelegramSettings(PlatformSettings, frozen=True):
    """A bot on [Telegram](telegram.md)."""

    allow: Annotated[
        list[NonEmptyText],
        Meta(
            description="The ids of the owners, as numbers in quotes; `*` lets everybody else in, as members. "
            "Whoever is not known asks by writing to the bot, and is let in with `perdure pair`.",
            examples=[["123456789"]],
        ),
    ] = msgspec.field(default_factory=list)
    token: Annotated[
        Secret | None,
        Meta(description="The bot's token, from @BotFather. Without one, Telegram is not used.", examples=["…"]),
    ] = None
    base_url: Annotated[
        Url,
        Meta(description="The server of the Bot API: what comes before `/bot<token>/<method>`."),
    ] = "https://api.telegram.org"
    webhook: Annotated[
        Url | None,
        Meta(
            description="The public address of the gateway's web server. With one, Telegram posts messages to "
            "`/hooks/telegram` there; without, the gateway asks for them.",
            examples=["https://bot.example.org"],
        ),
    ] = None
    stream: Annotated[
        bool, Meta(description="Whether people see a long answer grow, as one message that is edited.")
    ] = True

    def __repr__(self) -> str:
        return "TelegramSettings(token=(hidden))"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("token", "(hidden)")]


class PluginPlatformSettings(PlatformSettings, frozen=True):
    """A platform that another package brings: the settings of every platform, and its own as they came."""

    allow: Annotated[
        list[NonEmptyText],
        Meta(
            description="The ids of the owners, as the platform spells them; `*` lets everybody else in.",
            examples=[["ann", "bob"]],
        ),
    ] = msgspec.field(default_factory=list)
    own: Annotated[dict[str, Any], Meta(description="What the file says of its own keys.")] = {}
    texts: Annotated[dict[str, str], Meta(description="What the environment says of them.")] = {}

    # Nobody knows which of its own keys are secrets.
    def __repr__(self) -> str:
        return "PluggedSettings(own=(hidden))"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("own", "(hidden)")]


class PlatformsSettings(msgspec.Struct, frozen=True):
    """The platforms that this version has."""

    web: PlatformSettings = PlatformSettings()
    telegram: TelegramSettings = TelegramSettings()
