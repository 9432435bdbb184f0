"""Why a platform is not connected, or an event from it was not stored."""

from __future__ import annotations


def adapter_failed(kind: str) -> str:
    """Why a platform is not connected after its adapter failed; the error itself is only logged."""
    return f"its adapter failed with {kind}; the log says where"


def unreadable_event(why: str) -> str:
    """Why an event is stored as rejected: its adapter has filled a field wrongly."""
    return f"the adapter handed over an event that cannot be read: {why}"


EVENT_NOT_STORED = "not received: something went wrong inside the gateway; its log says what"


def not_connected(platform: str) -> str:
    return f"{platform} is not connected"


def reconnecting(problem: str) -> str:
    return f"{problem}. It is tried again by itself."
