"""A scenario with unknown people, and an operator who pairs them over HTTP."""

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
        super().__init__(home, SimulatedPlatform("web"), **given)
        self.platform.groups = {"g"}

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options for one gateway, with the agent of the current harness."""
        return super().options(**{"agent": self.agent_harness.agent, **more})

    async def wait_for_code(self, person: str = "eve", number: int = 1) -> str:
        """Wait until a person has got this many pairing codes; return the newest."""

        def told() -> list[str]:
            found = [PAIRING_NOTICE.fullmatch(text) for text in self.platform.replies(person)]
            codes = [match[1] for match in found if match is not None]
            return codes if len(codes) == number else []

        return str((await eventually(f"{person} was told {number} codes", told))[-1])

    def say(self, text: str, person: str = "eve") -> str:
        """Write in a private chat with the agent."""
        return self.platform.write(text, chat=person, sender=person)

    async def wait_until_acknowledged(self) -> None:
        await eventually("all is acknowledged", lambda: not self.platform.pending())

    async def wait_for_replies(self, *texts: str, chat: str = "eve") -> None:
        """Wait until these are the last replies in a chat."""
        await eventually(f"{chat} sees {texts}", lambda: self.platform.replies(chat)[-len(texts) :] == list(texts))


async def api_request(gateway: Gateway, method: str, path: str, **body: Any) -> httpx.Response:
    """Call the HTTP API of a gateway inside this process."""
    transport = httpx.ASGITransport(create_app(gateway, TOKEN, loopback=True))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway", headers=headers) as http:
        response = await http.request(method, path, json=body or None)
        check_response(response)
        return response


async def change_people(gateway: Gateway, verb: str, **body: Any) -> str:
    """Change the known people; return the text for the operator."""
    response = await api_request(gateway, "POST", f"/api/people/{verb}", **body)
    assert response.status_code == 200, response.text
    return str(response.json()["said"])
