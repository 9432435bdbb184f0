"""Tests wait on facts, never on time."""

from perdure.testing.waiting import DEADLINE_FACTOR, eventually, wait_for

__all__ = ["DEADLINE_FACTOR", "eventually", "wait_for"]
