"""`perdure doctor`: finds what is wrong or dangerous in this installation; it changes nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import typer
from msgspec import Struct

from perdure.cli.output import JsonOption, print_json, print_lines
from perdure.config import Settings, load_settings
from perdure.core import texts
from perdure.errors import ConfigurationError
from perdure.runtime.chat_folders import shares_workspace
from perdure.runtime.tool_factory import sandbox_request
from perdure.tools.sandbox import SandboxInForce, choose_sandbox

app = typer.Typer(rich_markup_mode=None)


@app.callback()
def root() -> None:
    """Accept the group: Typer would make an app with one command that command itself."""


@app.command()
def doctor(json: JsonOption = False) -> None:
    """Say how well this installation is protected; the exit code is 1 if something is wrong."""
    found = examine(load_settings())
    wrong = [each for each in found if each.level in ("wrong", "danger")]
    if json:
        print_json({"well": not wrong, "findings": found})
    else:
        print_lines(*(texts.cli.doctor_line(each.level, each.about, each.text) for each in found))
        print_lines(texts.cli.doctor_problems(len(wrong)) if wrong else texts.cli.DOCTOR_ALL_WELL)
    if wrong:
        raise typer.Exit(1)


_OPEN_TO_OTHERS = 0o077


class DoctorFinding(Struct, frozen=True):
    """One line of the report; `wrong` and `danger` make the exit code 1."""

    level: Literal["fine", "note", "wrong", "danger"]
    about: str
    text: str


def examine(settings: Settings) -> list[DoctorFinding]:
    """Look at everything, and change nothing."""
    return [*_sandbox_findings(settings), *_mode_findings(settings), *_sharing_findings(settings)]


def _sandbox_findings(settings: Settings) -> Iterator[DoctorFinding]:
    try:
        sandbox = _try_sandbox(settings)
    except ConfigurationError as error:
        yield DoctorFinding("wrong", "sandbox", str(error))
        return
    yield DoctorFinding("wrong" if sandbox.reason else "fine", "sandbox", sandbox.summary)
    wanted = settings.tools.sandbox_network
    if sandbox.is_on and sandbox.network != wanted:
        yield DoctorFinding("wrong", "network", texts.cli.doctor_network_differs(wanted, sandbox.network))
    yield from (DoctorFinding("note", "reachable", each) for each in sandbox.reachable)
    yield from (DoctorFinding("note", "limits", each) for each in sandbox.enforced_limits)
    if settings.tools.approvals == "off":
        level: Literal["note", "danger"] = "note" if sandbox.is_on else "danger"
        yield DoctorFinding(level, "approvals", texts.cli.doctor_approvals_off(sandboxed=sandbox.is_on))


def _try_sandbox(settings: Settings) -> SandboxInForce:
    """Choose the sandbox as the gateway does; in folders of our own where the gateway has not made its own yet."""
    with tempfile.TemporaryDirectory(prefix="perdure-doctor-") as name:
        spare = Path(name)
        shared = shares_workspace(settings) and settings.shared_workspace.is_dir()
        workspace = settings.shared_workspace if shared else spare
        return choose_sandbox(sandbox_request(settings), workspace, spare)


def _mode_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Files of the home that others than its owner can use."""
    if not settings.home.is_dir():
        yield DoctorFinding("note", "files", texts.cli.doctor_no_home(str(settings.home)))
        return
    secret = [settings.home, *(settings.home / name for name in ("token", "config.toml", "perdure.db", "lock"))]
    secret += [settings.home / name for name in ("keepers", "attachments", "chats", "agent-home")]
    exposed = [path for path in secret if path.exists() and path.stat().st_mode & _OPEN_TO_OTHERS]
    for path in exposed:
        wanted = "700" if path.is_dir() else "600"
        yield DoctorFinding(
            "wrong", "files", texts.cli.doctor_open_to_others(str(path), path.stat().st_mode & 0o777, wanted)
        )
    if not exposed:
        yield DoctorFinding("fine", "files", texts.cli.DOCTOR_FILES_PRIVATE)


def _sharing_findings(settings: Settings) -> Iterator[DoctorFinding]:
    if shares_workspace(settings):
        yield DoctorFinding("note", "workspace", texts.cli.doctor_shared_workspace(str(settings.shared_workspace)))
    else:
        yield DoctorFinding("fine", "workspace", texts.cli.DOCTOR_OWN_WORKSPACES)
