"""Why a command waits for a person's word."""

from __future__ import annotations


def dangerous_part(why: str, part: str) -> str:
    shown = " ".join(part.split())
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return f"{why}: `{shown}`"


def unreadable_command(why: str, what: str) -> str:
    return f"{why}: {what}"


def listed_as_dangerous(pattern: str) -> str:
    return f"the operator calls commands such as `{' '.join(pattern.split())}` dangerous"
