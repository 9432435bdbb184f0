"""The settings of a drill: the user's own where they say how things are done, ours where they say where."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from perdure.config import Settings

MAX_KILLS_PER_CHAT = 3  # more than one conversation sees in a drill
# Crashes that lie further apart than this do not set off the breaker of crash loops.
CRASH_SPACING_SECONDS = 360.0


def clock_step_seconds(settings: Settings) -> float:
    """How many seconds a drill's clock moves on with every kill: none where that would make work go stale."""
    fresh = settings.recovery.freshness
    return CRASH_SPACING_SECONDS if fresh == 0 or fresh > MAX_KILLS_PER_CHAT * CRASH_SPACING_SECONDS else 0.0


def may_give_up(settings: Settings) -> bool:
    """Whether the configuration gives work up for which people write again before they say /resume."""
    return settings.recovery.max_tokens is not None


def drill_settings(settings: Settings, home: Path) -> Settings:
    """What holds in a drill: nothing of it reaches the user's database, files, model, tools or people."""
    ours, recovery = Settings(home=home), settings.recovery
    return replace(
        settings,
        home=home,
        store=ours.store,
        web=ours.web,
        model=ours.model,
        platforms=ours.platforms,
        # A drill cuts everything off on purpose: with a lower limit it would count the limit, and not the gateway.
        recovery=replace(
            recovery,
            max_without_progress=max(recovery.max_without_progress, MAX_KILLS_PER_CHAT),
            max_interruptions=max(recovery.max_interruptions, MAX_KILLS_PER_CHAT),
        ),
        retention=ours.retention,  # what was erased could not be counted
        agent=replace(settings.agent, tools=ours.agent.tools, entrypoint=None),
        tools=replace(settings.tools, directory=None, load=[], mcp={}, env=ours.tools.env),
    )
