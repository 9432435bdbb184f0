"""Sentences about several gateways on one database."""

from __future__ import annotations

from collections.abc import Sequence


def heartbeats_missed(seconds: float) -> str:
    return (
        f"no heartbeat was recorded for {seconds:.0f} s: until one is, nothing new begins here, and this gateway "
        "takes over from no other"
    )


def served_elsewhere(services: Sequence[str]) -> str:
    return (
        f"other gateways on this database serve what this one does not, and leaves to them: {', '.join(services)}"
    )


def served_here_alone(services: Sequence[str]) -> str:
    return f"no other gateway on this database serves {', '.join(services)}: when this one is down, they wait"


DAMAGED_INSTANCE_HINT = (
    "Delete the file: the gateway then gets a new id, and does not know the commands that it has left running."
)
COPIED_HOME_HINT = (
    "Stop the other gateway, if this one is to take its place. If both are to run, delete the file `instance` in "
    "this home: then it is a gateway of its own."
)


def damaged_instance(path: str) -> str:
    return f"{path} is damaged: it does not hold the id of a gateway"


def copied_home(home: str, run: str) -> str:
    return f"another gateway lives with the id of this home, at {home} (run {run}): one of the two homes is a copy"
