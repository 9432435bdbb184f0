"""Scenarios of the recovery tests: gateways crash and restart on one home."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure.core.journal import TurnView
from perdure.runtime.gateway import Gateway, StopKind
from perdure.testing import SimulatedPlatform
from support import recovery
from support.gateway_scenario import GatewayScenario
from support.recovery import AgentHarness, GatedPlatform, HangingAgent
from support.waiting import eventually

SCRIPT = "step a\nstep b\nsay: done"  # step b hangs if the scenario says so


class RecoveryScenario(GatewayScenario):
    """A scenario whose agent is the offline model, with steps that can hang."""

    def __init__(
        self, home: Path, *stuck: str, platform: SimulatedPlatform | None = None, **settings: str
    ) -> None:
        self.agent_harness = AgentHarness(*stuck)
        super().__init__(home, platform, **settings)

    def options(self, **more: Any) -> dict[str, Any]:
        """Return the options for one gateway, with the agent of the current harness."""
        return super().options(**{"agent": self.agent_harness.agent, **more})

    @asynccontextmanager
    async def serving_released(self, *others: SimulatedPlatform, **options: Any) -> AsyncIterator[Gateway]:
        """Run a gateway without hanging steps, and stop it at the end."""
        self.agent_harness.release()
        async with self.serving(*others, **options) as gateway:
            yield gateway

    async def crash_in_step(self, *texts: str, chat: str = "1") -> None:
        """Write these messages, and kill a gateway when one more step hangs."""
        before = len(self.agent_harness.hung_steps)
        async with self.crashing():
            for text in texts:
                self.platform.write(text, chat=chat)
            await eventually(
                "a step hangs",
                lambda: len(self.agent_harness.hung_steps) > before and not self.platform.pending(),
            )

    async def crash_in_every_chat(self, chats: str, *behind: str) -> None:
        """Write the script and further messages in each chat; crash a gateway when all scripts hang."""
        async with self.crashing():
            for chat in chats:
                for text in (SCRIPT, *behind):
                    self.platform.write(text, chat=chat)
            await self.agent_harness.wait_until_hanging(len(chats))
            await eventually("all is stored", lambda: not self.platform.pending())

    async def crash_when_hanging(self, agent: HangingAgent, *texts: str) -> list[str]:
        """Write these messages, and crash a gateway when the agent hangs once more; return the message ids."""
        before = agent.hang_count
        async with self.crashing(agent=agent):
            written = [self.platform.write(text) for text in texts]
            await eventually("the agent hangs", lambda: agent.hang_count > before)
        return written

    async def run_into_the_deadline(self, ending: StopKind = StopKind.STOP) -> None:
        """Stop a gateway when one more step hangs, with a drain deadline of 0."""
        before = len(self.agent_harness.hung_steps)
        async with self.serving(DRAIN__DEADLINE="0") as gateway:
            await self.agent_harness.wait_until_hanging(before + 1)
            gateway.stop(ending)
            await eventually("the gateway has stopped", lambda: gateway.phase == "stopped")

    def key(self, chat: str = "1") -> str:
        return recovery.key_of(self.platform, chat)

    async def turns(self, chat: str = "1") -> list[TurnView]:
        return await recovery.turn_views(self.gateway.store, self.key(chat))

    async def turn(self, chat: str = "1") -> TurnView:
        """Return the last turn of a chat."""
        return await recovery.last_turn(self.gateway.store, self.key(chat))

    async def wait_for_rule(self, rule: str, chat: str = "1") -> TurnView:
        return await recovery.wait_for_rule(self.gateway.store, self.key(chat), rule)

    async def wait_for_replies(self, *texts: str, chat: str = "1") -> None:
        """Wait until a chat has exactly these replies."""
        await recovery.wait_for_replies(self.platform, *texts, chat=chat)

    async def wait_for_last_reply(self, text: str, chat: str = "1") -> None:
        """Wait until this is the last reply in a chat."""
        await eventually(f"chat {chat} sees {text!r}", lambda: self.platform.replies(chat)[-1:] == [text])

    async def why(self) -> str:
        """Return the output of `perdure why` about the chat."""
        return await recovery.run_perdure(self.home, "why", self.key())


async def scenario_with_open_delivery(home: Path, platform: GatedPlatform) -> RecoveryScenario:
    """Return a scenario in which a gateway crashed in a step, while it sent a reply to chat 2."""
    scenario = RecoveryScenario(home, "b", platform=platform)
    async with scenario.crashing() as gateway:
        platform.write(SCRIPT)
        platform.write("say: owed", chat="2")
        await scenario.agent_harness.wait_until_hanging()
        await platform.wait_for_sends(1)
        [owed] = await gateway.store.outbox.open_deliveries()
    assert owed.text == "owed"
    return scenario


async def scenario_crashed_in_step(home: Path, *texts: str, stuck: str = "b", **options: Any) -> RecoveryScenario:
    """Return a scenario in which a gateway crashed in a step of these messages, or of the script."""
    scenario = RecoveryScenario(home, stuck, **options)
    await scenario.crash_in_step(*(texts or (SCRIPT,)))
    return scenario


async def scenario_crashed_three_times(home: Path, seconds_between: float = 0) -> RecoveryScenario:
    """Return a scenario in which three gateways crashed in the same step, one soon after the other."""
    # A higher limit than by default, so that the session is not suspended first.
    scenario = await scenario_crashed_in_step(home, RECOVERY__MAX_WITHOUT_PROGRESS="9")
    for _ in range(2):
        scenario.clock.move(seconds_between)
        await scenario.crash_in_step()
    return scenario


def web_platform() -> SimulatedPlatform:
    """Return a platform with the settings of the web platform."""
    return SimulatedPlatform("web")


async def move_session(scenario: RecoveryScenario, home: Path, **fields: object) -> None:
    """Move the one session of a scenario to another home by export and import, with changed fields."""
    exported = json.loads(await recovery.run_perdure(scenario.home, "export"))
    [session] = exported["sessions"]
    session |= fields
    scenario.home = home
    await asyncio.to_thread(_write, home / "sessions.json", json.dumps(exported))
    await recovery.run_perdure(home, "import", str(home / "sessions.json"))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text)
