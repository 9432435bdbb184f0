"""Logins of the HTTP API: what is said of their scopes, and what `perdure token` says."""

from __future__ import annotations


def missing_scope(name: str, scope: str) -> str:
    return f"the login {name!r} lacks the scope {scope!r}, which this needs"


def missing_scope_hint(scope: str, *, of_home: bool = False) -> str:
    """What to do about it. The home's own token lacks a scope only while no sandbox hides it from commands."""
    why = "Commands of the agent could read the token in the home, so it approves nothing. " if of_home else ""
    given = scope if scope == "read" else f"read,{scope}"
    return f"{why}Use a login that has it: `perdure token add NAME --scopes {given}` makes one, and shows it once."
