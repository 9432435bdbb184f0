"""Why a shell command waits for approval, and how a person is asked for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECISION_ANSWERS = {
    "approved": "Approved.",
    "denied": "Denied; it is not run.",
    "late": "That comes too late: it is not run.",
    "nothing": "Nothing waits for your approval here.",
}


def dangerous_part(why: str, part: str) -> str:
    shown = " ".join(part.split())
    shown = shown if len(shown) <= 200 else f"{shown[:200]}…"
    return f"{why}: `{shown}`"


def unreadable_command(why: str, what: str) -> str:
    return f"{why}: {what}"


def listed_as_dangerous(pattern: str) -> str:
    return f"the operator calls commands such as `{' '.join(pattern.split())}` dangerous"


EVERY_COMMAND = "every command here needs approval"
DANGEROUS_BY_SCRIPT = "the script calls it dangerous"
OPTIONS = ("Approve", "Deny")


def request(tool: str, arguments: Mapping[str, Any], why: str) -> str:
    """The request for approval of a call. It shows the whole call: nobody can approve what they do not see."""
    call = f"{tool}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
    return f"May I do this? {call}\nI ask because {why}.\nSay /approve or /deny; nothing else counts."


def not_run(verdict: str) -> str:
    """The result that the model reads when a guarded call was not run."""
    if verdict == "denied":
        return "not run: the user denied it. Do not try it again in another way; say what you would need it for."
    if verdict == "late":
        return "not run: the approval came too late, and counts no more. Ask for the call again if it is needed."
    return "not run: the user neither approved nor denied it, but wrote something else."
