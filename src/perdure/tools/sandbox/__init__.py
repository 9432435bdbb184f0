"""The sandbox of commands: chosen once at the start, by trying it; the keeper carries it out.

`choose_sandbox(...)` answers with a `SandboxInForce`, which says what every command may see and reach.
"""

from __future__ import annotations

from perdure.tools.sandbox.choice import SandboxRequest, choose_sandbox
from perdure.tools.sandbox.in_force import Confinement, SandboxInForce, SandboxLimits
from perdure.tools.sandbox.launch import ConfinedLaunch, confined_launch

__all__ = [
    "ConfinedLaunch",
    "Confinement",
    "SandboxInForce",
    "SandboxLimits",
    "SandboxRequest",
    "choose_sandbox",
    "confined_launch",
]
