"""The sandbox that the settings ask for, as a request to `perdure.tools.sandbox`."""

from __future__ import annotations

from perdure.settings import Settings
from perdure.tools.sandbox import SandboxLimits, SandboxRequest


def sandbox_request(settings: Settings) -> SandboxRequest:
    """The sandbox that the settings ask for."""
    tools, home = settings.tools, settings.home
    return SandboxRequest(
        tools.sandbox,
        tools.sandbox_network,
        SandboxLimits(tools.sandbox_memory, tools.sandbox_processes, tools.sandbox_file_size),
        home,
        settings.web.port,
        tuple(home / path for path in tools.sandbox_read),
        tuple(home / path for path in tools.sandbox_write),
    )
