"""Why an event from a platform or an adapter was not taken."""

from __future__ import annotations


def adapter_failed(kind: str) -> str:
    """Why a platform is not connected when its adapter has a defect; what was said is for the log alone."""
    return f"its adapter failed with {kind}; the log says where"


def unreadable_event(why: str) -> str:
    """Why an event is kept as rejected whose adapter has filled it wrongly."""
    return f"the adapter handed over an event that cannot be read: {why}"


EVENT_NOT_STORED = "not received: something went wrong inside the gateway; its log says what"


def not_connected(platform: str) -> str:
    return f"{platform} is not connected"


def reconnecting(problem: str) -> str:
    return f"{problem}. It is tried again by itself."
