"""Chooses the sandbox at the start of the gateway, by trying the real one; what cannot be had is said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.errors import ConfigurationError
from perdure.tools.sandbox.control_group import find_control_group
from perdure.tools.sandbox.in_force import SandboxInForce, SandboxLayer, SandboxLimits, SandboxNetwork
from perdure.tools.sandbox.landlock import NETWORK_ABI, TRUNCATE_ABI, landlock_abi
from perdure.tools.sandbox.launch import confined_launch
from perdure.tools.sandbox.system_calls import ARCHITECTURES
from perdure.tools.sandbox.system_paths import is_reserved

WEB_PORTS = (22, 53, 80, 443)
_TRIAL_SECONDS = 20.0
_TRIAL = ("/bin/sh", "-c", "exit 0")


class SandboxRequest(Struct, frozen=True):
    """The sandbox that the operator wants."""

    mode: Literal["auto", "bwrap", "landlock", "off"]
    network: Literal["web", "public", "none", "full"]
    limits: SandboxLimits
    home: Path  # of the gateway; never shown
    web_port: int = 0  # of the gateway; never reached in `web`
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()


def choose_sandbox(request: SandboxRequest, workspace: Path, agent_home: Path) -> SandboxInForce:
    """The best sandbox that works here, of those that the operator accepts; both folders must exist.

    `ConfigurationError` if the one that the operator wants cannot be had, or would show the gateway's secrets.
    """
    off = _base(request)
    if request.network == "public" and request.mode in ("landlock", "off"):
        raise ConfigurationError(texts.sandbox.PUBLIC_NEEDS_BUBBLEWRAP, hint=texts.sandbox.PUBLIC_HINT)
    if request.mode == "off":
        return replace(off, reason=texts.sandbox.SWITCHED_OFF)
    layers: Sequence[SandboxLayer] = ("bwrap", "landlock") if request.mode == "auto" else (request.mode,)
    problems: list[str] = []
    for layer in layers:
        wanted = replace(off, layer=layer, reason=" ".join(problems))
        _refuse_unfit_folders(wanted, workspace)
        if not (problem := _missing(wanted) or _try(wanted, workspace, agent_home)):
            return wanted
        problems.append(texts.sandbox.unavailable(layer, problem))
        if request.network == "public":
            problems.append(texts.sandbox.PUBLIC_NEEDS_BUBBLEWRAP)
            raise ConfigurationError(" ".join(problems), hint=texts.sandbox.PUBLIC_HINT)
    if request.mode != "auto":
        raise ConfigurationError(" ".join(problems), hint=texts.sandbox.hint(request.mode))
    return replace(off, reason=" ".join(problems))


def _base(request: SandboxRequest) -> SandboxInForce:
    """Everything about the sandbox but its layer."""
    abi = landlock_abi()
    network: SandboxNetwork = request.network
    if network == "web" and abi < NETWORK_ABI:
        network = "full"
    return SandboxInForce(
        "off",
        "",
        network,
        request.limits,
        abi,
        shutil.which("bwrap") or "",
        _ports(network, request.web_port),
        tuple(path.resolve() for path in request.read),
        tuple(path.resolve() for path in request.write),
        request.home.resolve(),
        os.geteuid(),
        *find_control_group(),
    )


def _ports(network: SandboxNetwork, web_port: int) -> tuple[int, ...] | None:
    """The TCP ports that commands reach; the proxy of `public` refuses this machine's addresses at all of them."""
    match network:
        case "web":
            return tuple(port for port in WEB_PORTS if port != web_port)
        case "public":
            return WEB_PORTS
        case _:
            return None


def _refuse_unfit_folders(wanted: SandboxInForce, workspace: Path) -> None:
    """Refuse folders that do not exist, would show the gateway's home, or take the place of the system."""
    for path in (*wanted.read, *wanted.write):
        if not path.exists():
            raise ConfigurationError(texts.sandbox.missing(str(path)), hint=texts.sandbox.MISSING_HINT)
    for path in (workspace.resolve(), *wanted.read, *wanted.write):
        around = wanted.hidden.is_relative_to(path)
        if path == wanted.hidden or (around and wanted.layer == "landlock") or len(path.parts) < 2:
            raise ConfigurationError(
                texts.sandbox.shows_the_home(str(path), wanted.layer), hint=texts.sandbox.SHOWS_THE_HOME_HINT
            )
    for path in (workspace.resolve(), *wanted.write):
        if is_reserved(path):
            raise ConfigurationError(texts.sandbox.reserved(str(path)), hint=texts.sandbox.SHOWS_THE_HOME_HINT)


def _missing(wanted: SandboxInForce) -> str:
    """What this system lacks for a layer; empty if it can be tried."""
    if sys.platform != "linux" or os.uname().machine not in ARCHITECTURES:
        return texts.sandbox.OTHER_SYSTEM
    if wanted.layer == "bwrap":
        return "" if wanted.program else texts.sandbox.NO_BUBBLEWRAP
    return "" if wanted.abi >= TRUNCATE_ABI else texts.sandbox.old_landlock(wanted.abi, TRUNCATE_ABI)


def _try(wanted: SandboxInForce, workspace: Path, agent_home: Path) -> str:
    """Run a command in the sandbox with everything that commands get; why it failed, or an empty text."""
    wanted.make_folders(agent_home)
    with confined_launch(wanted, _TRIAL, {"PATH": os.defpath}, workspace, agent_home) as launch:
        try:
            done = subprocess.run(
                launch.argv,
                env=launch.env,
                pass_fds=launch.pass_fds,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=_TRIAL_SECONDS,
                check=False,
                cwd=workspace,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else texts.sandbox.failed(done.returncode)
