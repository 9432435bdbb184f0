"""The HTTP API of the running gateway, as commands call it; that of a chat outlives the gateway."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any
from urllib.parse import quote

import httpx

from perdure.config import Settings
from perdure.core import texts
from perdure.core.commands import read_command
from perdure.errors import GatewayNotRunning, NotTaken, PerdureError
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


def run_session_verb(settings: Settings, session: str, verb: str) -> bool:
    """Let the gateway carry out a verb on a session; False if there was nothing to do."""
    return bool(call(settings, "POST", f"/api/sessions/{quote(session, safe='')}/{verb}")["done"])


def not_running(settings: Settings) -> GatewayNotRunning:
    """The error of a command that needs a running gateway, and finds none."""
    return GatewayNotRunning(texts.cli.no_gateway_running(settings.home), hint=texts.cli.START_GATEWAY_HINT)


RETRY_SECONDS = 0.5
FIND_GATEWAY_SECONDS = 5.0  # to find a gateway at the beginning; later, the client waits as long as it takes

ChatEvent = tuple[str, dict[str, Any]]


class ChatClient:
    """The HTTP API of one chat."""

    def __init__(self, base: str, token: str, chat: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=base,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(10, read=30),
            trust_env=False,  # our own gateway is not reached through a proxy
        )
        self._path = f"/api/chats/{quote(chat, safe='').replace('.', '%2E')}"  # `..` is a valid name
        self._last_event_id = ""  # the id of the last event seen
        self._position = 0  # a position in the chat before our last message
        self.gateway_away = False

    async def wait_for_gateway(self) -> None:
        """Wait a few seconds for the gateway to answer."""
        for _ in range(int(FIND_GATEWAY_SECONDS / RETRY_SECONDS)):
            try:
                response = await self._http.get("/healthz")
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if '"healthy"' in response.text:
                return
            raise GatewayNotRunning(texts.cli.not_a_gateway(self._http.base_url), hint=texts.cli.NAME_GATEWAY_HINT)
        raise GatewayNotRunning(
            texts.cli.no_gateway_answers(self._http.base_url), hint=texts.cli.START_GATEWAY_ELSEWHERE_HINT
        )

    async def send(self, text: str) -> str:
        """Send a message once, however often the gateway dies meanwhile; returns the id of the stored message.

        A message that our login may not send, such as `/approve`, raises `NotTaken`.
        """
        body = {"id": secrets.token_hex(8), "text": text}
        while True:
            try:
                response = await self._http.post(f"{self._path}/messages", json=body)
            except httpx.TransportError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            found = response.json()
            if response.status_code == httpx.codes.FORBIDDEN:
                raise NotTaken(found["error"], hint=found["hint"])
            if response.is_error:
                raise PerdureError(found["error"], hint=found["hint"])
            stored: str = found["message"]
            return stored

    async def skip_history(self) -> None:
        """Read past the events that are in the chat already."""
        while True:
            async with aclosing(self._stream()) as stream:
                async for event, data in stream:
                    if event == "message":
                        self._position = data["position"]
                    if event == "idle":
                        return
            await asyncio.sleep(RETRY_SECONDS)

    async def is_answered(self, message: str, final_positions: dict[str, float]) -> bool:
        """Whether this message is answered, given the positions of the final messages of turns."""
        try:
            response = await self._http.get(f"{self._path}/messages", params={"after": self._position})
        except httpx.TransportError:
            return False
        seen: list[dict[str, Any]] = [] if response.is_error else response.json()["messages"]
        for ours in seen:
            self._position = ours["position"] - 1
            if ours["id"] == message:
                return _is_answered(ours, seen, final_positions)
        return False

    async def events(self) -> AsyncGenerator[ChatEvent]:
        """The events of the chat, for ever. `away` and `back` tell that the gateway is gone and back."""
        while True:
            async for event, data in self._stream():
                if self.gateway_away:
                    self.gateway_away = False
                    yield "back", {}
                yield event, data
            if not self.gateway_away:
                self.gateway_away = True
                yield "away", {}
            await asyncio.sleep(RETRY_SECONDS)

    async def _stream(self) -> AsyncGenerator[ChatEvent]:
        """The events after the last one seen, until the connection ends."""
        headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
        with suppress(httpx.TransportError):
            async with self._http.stream("GET", f"{self._path}/events", headers=headers) as response:
                if response.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    return
                if response.is_error:
                    found = json.loads(await response.aread())
                    raise PerdureError(found["error"], hint=found["hint"])
                async for event in self._parse(response):
                    yield event

    async def _parse(self, response: httpx.Response) -> AsyncGenerator[ChatEvent]:
        fields: dict[str, str] = {}
        async for line in response.aiter_lines():
            if line.startswith(":"):
                yield "idle", {}
            elif line:
                name, _, value = line.partition(": ")
                fields[name] = value
            elif "event" in fields:
                self._last_event_id = fields.get("id", self._last_event_id)
                yield fields["event"], json.loads(fields["data"])
                fields = {}

    async def close(self) -> None:
        await self._http.aclose()


def _is_answered(message: dict[str, Any], seen: list[dict[str, Any]], final_positions: dict[str, float]) -> bool:
    """A message is answered by its turn, a command by any later message of the gateway itself."""
    position: int = message["position"]
    if read_command(message["text"]) is None:
        return final_positions.get(message["turn"], 0) > position
    return any(each["author"] == "agent" and not each["turn"] and each["position"] > position for each in seen)
