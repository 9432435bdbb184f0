"""Response bodies about the gateway: health, status, overview, configuration and demo; and the login form."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from perdure.operations.resources import ListedDecisionResource, SettingResource, TurnResource
from perdure.store.metrics import OpenCounts


class HealthResponse(Struct, frozen=True):
    healthy: bool
    reasons: list[str]


class ReadinessResponse(Struct, frozen=True):
    ready: bool
    reasons: list[str]


class StatusResponse(Struct, frozen=True):
    """The state of the gateway."""

    phase: str
    run: str
    started_at: int | None
    problems: list[str]
    platforms: list[str]
    running: int
    resume_paused: bool
    counts: OpenCounts
    summary: list[str]


class ActionResource(Struct, frozen=True):
    """An action that an operator can take: post `body` to `path`."""

    label: str
    question: str
    means: str
    path: str
    body: dict[str, Any]
    about: str
    danger: bool


class AttentionItem(Struct, frozen=True):
    """Something that does not go on without a person."""

    level: Literal["warn", "bad"]
    text: str
    detail: str
    at: int | None
    where: str | None
    link: str | None
    acts: list[ActionResource]


class PlatformStatusResource(Struct, frozen=True):
    name: str
    problem: str


class OverviewResponse(StatusResponse, frozen=True):
    """The state of the gateway, and everything that needs a person."""

    version: str
    model: str
    adapters: list[PlatformStatusResource]
    well: str
    attention: list[AttentionItem]
    turns: list[TurnResource]
    decisions: list[ListedDecisionResource]


class ConfigurationResponse(Struct, frozen=True):
    home: str
    settings: list[SettingResource]


class KillResponse(Struct, frozen=True):
    killed: int  # the process id of the gateway


class StepRunsResponse(Struct, frozen=True):
    runs: dict[str, int]  # by turn and call


class LoginForm(Struct, frozen=True):
    """The fields of the login form."""

    token: str
