"""Which sandbox is in force, as a value, and what it makes of one command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from perdure.core import texts
from perdure.tools.sandbox.bubblewrap import AGENT_HOME, bubblewrap_prefix
from perdure.tools.sandbox.control_group import COMMAND_GROUP_PREFIX
from perdure.tools.sandbox.landlock import file_ruleset, scope_ruleset
from perdure.tools.sandbox.system_calls import inner_filter, outer_filter

SandboxLayer = Literal["bwrap", "landlock", "off"]
SandboxNetwork = Literal["web", "public", "none", "full"]
MEGABYTE = 1_000_000
PROXY_PORT = 3128  # on the loopback of a sandbox with the network `public`, which no other program shares
_PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
_NO_PROXY = "localhost,127.0.0.1,::1"

Confinement = dict[str, Any]  # a record of `order.json`: what `keeper/confinement.py` does to a process


class SandboxLimits(Struct, frozen=True):
    """What one command may use, at most."""

    memory: int  # MB of each process, or of all together where there is a control group
    processes: int  # at a time; without a control group the kernel does not hold root to it
    file_size: int  # MB


class SandboxInForce(Struct, frozen=True):
    """The sandbox in which every command of this gateway runs; it never changes while the gateway runs."""

    layer: SandboxLayer
    reason: str  # why it is not a better one; empty in the best
    network: SandboxNetwork
    limits: SandboxLimits
    abi: int = 0  # of Landlock; 0 without it
    program: str = ""  # the path of bubblewrap
    ports: tuple[int, ...] | None = None  # to which TCP may connect, by itself or through the proxy; None: all
    read: tuple[Path, ...] = ()  # further folders that commands may read
    write: tuple[Path, ...] = ()  # and change
    hidden: Path = Path("/nonexistent")  # the gateway's home
    user: int = 0  # the user that commands run as
    control_group: Path | None = None  # below which each command gets one of its own
    no_control_group: str = ""  # why there is none

    @property
    def is_on(self) -> bool:
        return self.layer != "off"

    def confinement(self, workspace: Path, agent_home: Path, read: Sequence[Path] = ()) -> Confinement | None:
        """What is done to a command of a conversation with these folders; None while the sandbox is off.

        `read` are folders that this conversation may read and not change, such as its attachments.
        """
        if not self.is_on:
            return None
        machine, read = os.uname().machine, [*self.read, *read]
        workspace, agent_home = workspace.resolve(), agent_home.resolve()
        common: Confinement = {"layer": self.layer, "limits": self._resource_limits()}
        common["control_group"] = self._control_group()
        if self.layer == "bwrap":
            folders = (workspace, agent_home, read, self.write, self.hidden)
            return common | {
                "prefix": bubblewrap_prefix(self.program, *folders, network=self.network in ("web", "full")),
                "proxy": self._proxy(),
                "ruleset": scope_ruleset(self.abi, self.ports if self.network == "web" else None),
                "filters": [outer_filter(machine, path_sockets=True, internet=True).hex()],
                "inner_filter": inner_filter(machine).hex(),
            }
        outer = outer_filter(machine, path_sockets=False, internet=self.network != "none")
        return common | {
            "ruleset": file_ruleset(self.abi, read, [*self.write, workspace, agent_home], self.ports),
            "filters": [outer.hex(), inner_filter(machine).hex()],
        }

    def variables(self, agent_home: Path) -> dict[str, str]:
        """The variables that a command needs to find its own folders in the sandbox."""
        match self.layer:
            case "bwrap":
                return {"HOME": AGENT_HOME} | (proxy_variables() if self.network == "public" else {})
            case "landlock":  # `/tmp` belongs to everybody, and cannot be used
                return {"HOME": str(agent_home), "TMPDIR": str(agent_home / "tmp")}
            case _:
                return {}

    def _proxy(self) -> dict[str, Any] | None:
        """What `keeper/proxied_network.py` needs to know; None if the command needs no proxy."""
        if self.network != "public":
            return None
        return {"port": PROXY_PORT, "ports": self.ports or (), "sentences": texts.sandbox.PROXY_SENTENCES}

    def make_folders(self, agent_home: Path) -> None:
        """Make the folders that `variables` names."""
        agent_home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.layer == "landlock":
            (agent_home / "tmp").mkdir(mode=0o700, exist_ok=True)

    def _resource_limits(self) -> dict[str, int]:
        """By the names of the kernel. `DATA`, not `AS`: programs reserve far more addresses than they use."""
        limits = {"DATA": self.limits.memory * MEGABYTE, "FSIZE": self.limits.file_size * MEGABYTE}
        return limits if self.user == 0 else limits | {"NPROC": self.limits.processes}

    def _control_group(self) -> dict[str, Any] | None:
        """Where to make the group of a command, and what to write into which of its files."""
        if self.control_group is None:
            return None
        limits = {"pids.max": self.limits.processes, "memory.max": self.limits.memory * MEGABYTE}
        return {"prefix": str(self.control_group / COMMAND_GROUP_PREFIX), "limits": limits}

    @property
    def summary(self) -> str:
        """One sentence about what is in force."""
        return texts.sandbox.in_force(self.layer, self.network, self.reason)

    @property
    def prompt(self) -> str:
        """What the model is told of it."""
        return texts.sandbox.for_model(self.layer, self.network, self.ports or ())

    @property
    def reachable(self) -> list[str]:
        """What commands can reach all the same, in words."""
        return texts.sandbox.reachable(self.layer, self.network, self.abi, self.ports or ())

    @property
    def enforced_limits(self) -> list[str]:
        """The limits, and what holds commands to them."""
        chosen = self.limits
        return texts.sandbox.limits(
            self.layer,
            chosen.memory,
            chosen.processes,
            chosen.file_size,
            root=self.user == 0,
            no_control_group="" if self.control_group else self.no_control_group,
        )


def proxy_variables() -> dict[str, str]:
    """The variables by which programs find the proxy; some know the small letters alone, some the large ones."""
    proxy = dict.fromkeys(_PROXY_VARIABLES, f"http://127.0.0.1:{PROXY_PORT}")
    return proxy | {"no_proxy": _NO_PROXY, "NO_PROXY": _NO_PROXY}
