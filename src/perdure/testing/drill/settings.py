"""The settings of a drill: the user's policies, with a home, store, model and platforms of the drill's own."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from perdure.config import Settings

MAX_KILLS_PER_CHAT = 3  # more kills than one conversation meets in a drill
# Crashes further apart than this do not count as a crash loop.
CRASH_SPACING_SECONDS = 360.0
DRAIN_SECONDS = 0.1  # that a planned stop leaves to what runs, in a drill of several gateways


def clock_step_seconds(settings: Settings) -> float:
    """Return the seconds by which each kill advances the clock; 0 where that would make turns stale."""
    fresh = settings.recovery.freshness
    return CRASH_SPACING_SECONDS if fresh == 0 or fresh > MAX_KILLS_PER_CHAT * CRASH_SPACING_SECONDS else 0.0


def may_give_up(settings: Settings) -> bool:
    """Tell whether the configuration gives up a suspended turn when people write before they say /resume."""
    return settings.recovery.max_tokens is not None


def drill_settings(settings: Settings, home: Path) -> Settings:
    """Return the settings of a drill, which never touches the user's database, files, model, tools or people."""
    ours, recovery = Settings(home=home), settings.recovery
    return replace(
        settings,
        home=home,
        store=ours.store,
        web=ours.web,
        model=ours.model,
        platforms=ours.platforms,
        # A drill interrupts every turn on purpose: a lower limit would suspend turns and hide faults.
        recovery=replace(
            recovery,
            max_without_progress=max(recovery.max_without_progress, MAX_KILLS_PER_CHAT),
            max_interruptions=max(recovery.max_interruptions, MAX_KILLS_PER_CHAT),
        ),
        retention=ours.retention,  # erased rows could not be counted
        agent=replace(settings.agent, tools=ours.agent.tools, entrypoint=None),
        # The commands of all chats leave their traces in one file.
        tools=replace(settings.tools, workspaces="shared", directory=None, load=[], mcp={}, env=ours.tools.env),
    )


def group_settings(settings: Settings, store: str) -> Settings:
    """Return the settings of a drill of several gateways, without their homes."""
    ours = drill_settings(settings, settings.home)
    wait = min(settings.handover.wait, settings.store.lease)
    return replace(
        ours,
        store=replace(ours.store, url=store, lease=settings.store.lease),
        # A planned stop interrupts what runs, so that there is something to hand over.
        drain=replace(settings.drain, deadline=min(settings.drain.deadline, DRAIN_SECONDS)),
        handover=replace(settings.handover, wait=wait),
    )
