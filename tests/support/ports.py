"""Free ports on this machine for servers that tests start and restart."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"
EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_port() -> int:
    """Return a free port outside the ephemeral range, so that the port is still free for a later restart."""
    first = int(EPHEMERAL_RANGE.read_text().split()[0])
    below = first if first > 10_000 else 32_768  # a range that begins so low leaves no room beneath it
    while True:
        port = below // 2 + secrets.randbelow(below // 2)
        with socket.socket() as probe, suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            return port
