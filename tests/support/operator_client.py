"""A client of the HTTP API for an operator."""

from __future__ import annotations

from typing import Any

import httpx

from support.gateway import GatewayProcess
from support.openapi_check import check_response
from support.waiting import wait_for


class Operator:
    """Calls a running gateway, and fails the test unless the response has the expected status."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway

    def get(self, path: str, status: int = 200, **query: str) -> Any:
        return self._ask("GET", path, status, params=query or None)

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        return self._ask("POST", path, status, json=body)

    def _ask(self, method: str, path: str, status: int, **options: Any) -> Any:
        headers = {"Authorization": f"Bearer {self._gateway.token}"}
        response = httpx.request(method, f"{self._gateway.url}/api{path}", headers=headers, timeout=30, **options)
        assert response.status_code == status, response.text
        check_response(response)
        return response.json()

    def last_turn(self, chat: str, platform: str = "web") -> Any:
        """Return the timeline of the newest turn of a chat."""
        session = self.get(f"/sessions/agent:main:{platform}:dm:{chat}")
        return self.get(f"/turns/{session['turns'][0]['id']}")

    def replies(self, state: str) -> list[Any]:
        found: list[Any] = self.get("/outbox", state=state)["outbox"]
        return found

    def wait_for_reply(self, state: str) -> Any:
        """Wait until a reply is in that state."""
        return wait_for(f"a reply is {state}", lambda: self.replies(state))[0]
