"""Logins of a gateway, made by its command line, and requests with one of them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import httpx

from support.gateway import COMMAND, GatewayProcess


def run_token(process: GatewayProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `perdure token` with these arguments in the home of a gateway."""
    command = [*COMMAND, "token", *arguments]
    return subprocess.run(command, env=process.environment(), capture_output=True, text=True, timeout=60)


def add_login(process: GatewayProcess, name: str, scopes: str, *more: str) -> str:
    """Add a login, and return its token."""
    made = run_token(process, "add", name, "--scopes", scopes, *more)
    assert made.returncode == 0, made.stderr
    return made.stdout.strip()


def list_logins(process: GatewayProcess) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run_token(process, "list", "--json").stdout)
    return found


def ask(process: GatewayProcess, token: str, call: str, body: object = None) -> httpx.Response:
    """Make a call with a login; of a stream of events, the head is enough."""
    method, path = call.split()
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.stream(method, f"{process.url}{path}", headers=headers, json=body, timeout=30) as response:
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return response
        response.read()
        return response
