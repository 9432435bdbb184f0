"""The HTTP API of the running gateway, as commands of the command line call it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.core import texts
from perdure.errors import GatewayNotRunning, PerdureError
from perdure.web.auth.token import ensure_token


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
        raise not_running(settings) from None
    if response.headers.get("content-type") != "application/json":
        raise GatewayNotRunning(texts.cli.not_a_gateway(url), hint=texts.cli.NAME_GATEWAY_HINT)
    found: dict[str, Any] = response.json()
    if response.is_error:
        raise PerdureError(found["error"], hint=found["hint"])
    return found


def run_session_verb(settings: Settings, session: str, verb: str) -> tuple[bool, bool]:
    """Let the gateway carry out a verb on a session; return whether it is done, and whether it was asked for."""
    answer = call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/{verb}")
    return bool(answer["done"]), bool(answer.get("asked"))


def not_running(settings: Settings) -> GatewayNotRunning:
    """The error of a command that needs a running gateway, and finds none."""
    return GatewayNotRunning(texts.cli.no_gateway_running(settings.home), hint=texts.cli.START_GATEWAY_HINT)
