"""Scenes with people in them whom somebody has to let in, and the operator who does it over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx

from perdure.runtime.gateway import Gateway
from perdure.testing import SimulatedPlatform
from perdure.web.app import create_app
from support.gateway_scenario import GatewayScenario
from support.openapi_check import check_response
from support.recovery import AgentHarness
from support.waiting import eventually

TOKEN = "a token"  # noqa: S105 reason: of a gateway that nobody else reaches
PAIRING_NOTICE = re.compile(
    r"I don't know you yet\. Ask whoever runs me to enter: perdure pair (\w{4}-\w{4})\. "
    r"The code is good for one hour\."
)


class PairingScenario(GatewayScenario):
    """A scenario on a platform whose only owner is ann, with a group chat `g`."""

    def __init__(self, home: Path, *stuck: str, **settings: str) -> None:
        self.agent_harness = AgentHarness(*stuck)
        given = {"PLATFORMS__WEB__ALLOW": "ann", **settings}
        super().__init__(home, SimulatedPlatform("web"), agent=self.agent_harness.agent, **given)
        self.platform.groups = {"g"}

    async def wait_for_code(self, person: str = "eve", number: int = 1) -> str:
        """The newest code that a person was told in the chat with them, of so many."""

        def told() -> list[str]:
            found = [PAIRING_NOTICE.fullmatch(text) for text in self.platform.replies(person)]
            codes = [match[1] for match in found if match is not None]
            return codes if len(codes) == number else []

        return str((await eventually(f"{person} was told {number} codes", told))[-1])

    def say(self, text: str, person: str = "eve") -> str:
        """Write to the agent alone."""
        return self.platform.write(text, chat=person, sender=person)

    async def wait_until_acknowledged(self) -> None:
        await eventually("all is acknowledged", lambda: not self.platform.pending())

    async def wait_for_replies(self, *texts: str, chat: str = "eve") -> None:
        """Wait until this is the last that a chat sees of us."""
        await eventually(f"{chat} sees {texts}", lambda: self.platform.replies(chat)[-len(texts) :] == list(texts))


async def api_request(gateway: Gateway, method: str, path: str, **body: Any) -> httpx.Response:
    """Ask the HTTP API of a gateway inside this process."""
    transport = httpx.ASGITransport(create_app(gateway, TOKEN))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as http:
        response = await http.request(method, path, json=body or None)
        check_response(response)
        return response


async def change_people(gateway: Gateway, verb: str, **body: Any) -> str:
    """Change who is known; what the operator reads."""
    response = await api_request(gateway, "POST", f"/api/people/{verb}", **body)
    assert response.status_code == 200, response.text
    return str(response.json()["said"])
