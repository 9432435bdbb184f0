"""Crash loops: what it means for interrupted turns that the gateway itself keeps dying."""

from __future__ import annotations

WINDOW_MS = 300_000  # in which unclean starts count as shortly after one another
PAUSE_AFTER_UNCLEAN_STARTS = 3  # within the window
SERIAL_AFTER_UNCLEAN_STARTS = 2  # in a row


def pauses_recovery(unclean_lately: int) -> bool:
    """Whether nothing is resumed automatically after so many unclean starts within the window."""
    return unclean_lately >= PAUSE_AFTER_UNCLEAN_STARTS


def resumes_one_at_a_time(unclean_in_a_row: int) -> bool:
    """Whether turns are resumed one by one after so many unclean starts, so that a crash counts for one alone."""
    return unclean_in_a_row >= SERIAL_AFTER_UNCLEAN_STARTS
