"""What the supervisor prints when a gateway has ended."""

from __future__ import annotations

from perdure.core.exit_report import signal_name


def could_not_start(error: object) -> str:
    return f"could not be started ({error})"


def asked_for_restart(lifetime_seconds: float) -> str:
    return f"asked for a restart {_after(lifetime_seconds)}"


def ended(code: int, lifetime_seconds: float) -> str:
    """How a gateway ended; a code below zero is the signal that killed it."""
    how = f"ended with exit code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
    return f"{how} {_after(lifetime_seconds)}"


def _after(seconds: float) -> str:
    return f"after {seconds:.0f} s" if seconds >= 10 else f"after {seconds:.1f} s"


def stays_down(ending: str) -> str:
    return f"The gateway {ending}; it stays down until what it reported is mended."


def ended_while_stopping(ending: str) -> str:
    return f"The gateway {ending}, while it was stopping."


def starts_again(ending: str, deaths: int, delay_seconds: float) -> str:
    """Say that a gateway is started again, and when, if it has died several times in a row."""
    if delay_seconds:
        return (
            f"The gateway {ending}; it has died {deaths} times in a row, starting it again in {delay_seconds:g} s."
        )
    return f"The gateway {ending}; starting it again."
