"""Sentences about several gateways on one database."""

from __future__ import annotations


def heartbeats_missed(seconds: float) -> str:
    return (
        f"no heartbeat was recorded for {seconds:.0f} s: until one is, nothing new begins here, and this gateway "
        "takes over from no other"
    )
