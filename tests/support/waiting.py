"""Tests wait on facts, never on time."""

from perdure.testing.waiting import eventually, wait_for

__all__ = ["eventually", "wait_for"]
