"""The command line's access to the running gateway: its HTTP API, and signals."""

from __future__ import annotations

import os
import signal
import time
from typing import Any
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.core import texts
from perdure.errors import GatewayNotRunning, PerdureError
from perdure.store.locks import lock_holder
from perdure.web.auth.token import ensure_token

POLL_SECONDS = 0.1
STOP_MARGIN_SECONDS = 30.0  # after the drain deadline


def base_url(settings: Settings) -> str:
    """The address of the gateway's HTTP API."""
    host = f"[{settings.web.host}]" if ":" in settings.web.host else settings.web.host
    return f"http://{host}:{settings.web.port}"


def call(settings: Settings, method: str, path: str, body: object = None) -> dict[str, Any]:
    """Call the gateway's HTTP API."""
    headers = {"Authorization": f"Bearer {ensure_token(settings.home)}"}
    url = f"{base_url(settings)}{path}"
    try:
        response = httpx.request(method, url, headers=headers, json=body, timeout=30, trust_env=False)
    except httpx.TransportError:
        raise _not_running(settings) from None
    if response.headers.get("content-type") != "application/json":
        raise GatewayNotRunning(texts.cli.not_a_gateway(url), hint=texts.cli.NAME_GATEWAY_HINT)
    found: dict[str, Any] = response.json()
    if response.is_error:
        raise PerdureError(found["error"], hint=found["hint"])
    return found


def run_session_verb(settings: Settings, session: str, verb: str) -> bool:
    """Let the gateway carry out a verb on a session; False if there was nothing to do."""
    return bool(call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/{verb}")["done"])


def stop(settings: Settings) -> None:
    """Stop the gateway in an orderly way, and wait until it has released its home."""
    holder = _gateway_pid(settings)
    os.kill(holder, signal.SIGTERM)
    _wait_until_gone(settings, holder)


def restart(settings: Settings) -> None:
    """Ask the gateway to restart, and wait until it has stopped; its supervisor starts it again."""
    holder = _gateway_pid(settings)
    os.kill(holder, signal.SIGUSR1)
    _wait_until_gone(settings, holder)


def _gateway_pid(settings: Settings) -> int:
    """The process that holds the lock of the home, which proves that it is a living gateway."""
    holder = lock_holder(settings.home / "lock")
    if holder is None:
        raise _not_running(settings)
    return holder


def _wait_until_gone(settings: Settings, pid: int) -> None:
    deadline = time.monotonic() + settings.drain.deadline + STOP_MARGIN_SECONDS
    while lock_holder(settings.home / "lock") == pid:
        if time.monotonic() > deadline:
            raise PerdureError(texts.cli.does_not_stop(pid), hint=texts.cli.DOES_NOT_STOP_HINT)
        time.sleep(POLL_SECONDS)


def _not_running(settings: Settings) -> GatewayNotRunning:
    return GatewayNotRunning(texts.cli.no_gateway_running(settings.home), hint=texts.cli.START_GATEWAY_HINT)
