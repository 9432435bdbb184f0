"""What `perdure doctor` says."""

from __future__ import annotations

LEVELS = {"fine": "fine", "note": "note", "wrong": "WRONG", "danger": "DANGER"}
FILES_PRIVATE = "Only their owner can read the gateway's files."
OWN_WORKSPACES = "Each chat has a workspace of its own."
ALL_WELL = "All is well."


def line(level: str, about: str, text: str) -> str:
    return f"{LEVELS[level]:6}  {about}: {text}"


def problems(count: int) -> str:
    return f"{count} {'thing needs' if count == 1 else 'things need'} somebody."


def network_differs(wanted: str, found: str) -> str:
    return f'"{wanted}" is wanted, and "{found}" is in force: this kernel cannot limit ports (Linux 6.7 can).'


def approvals_off(*, sandboxed: bool) -> str:
    if sandboxed:
        return "No command asks, because tools.approvals is off; the sandbox alone limits what commands do."
    return (
        "Commands run without a sandbox and none of them asks, because tools.approvals is off: whoever may write "
        "to the agent can do everything that the gateway's user can. Set tools.approvals, or tools.sandbox."
    )


def no_home(home: str) -> str:
    return f"There is no home yet at {home}; the first start makes it."


def open_to_others(path: str, mode: int, wanted: str) -> str:
    return f"{path} has mode {mode:04o}, so others than its owner can use it. Run: chmod {wanted} {path}"


def shared_workspace(path: str) -> str:
    return f"All chats share one workspace, {path}: what one person's commands write, another's can read."
