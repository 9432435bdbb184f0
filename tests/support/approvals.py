"""A scenario for tests of approvals: a guarded command waits for a person."""

from __future__ import annotations

from pathlib import Path

from perdure.core.journal import ToolEnded, ToolStarted, TurnView
from perdure.core.messages import Button
from perdure.store.api import Store
from perdure.testing import SimulatedPlatform
from support.gateway_scenario import GatewayScenario
from support.recovery import key_of, last_turn, turn_views
from support.shell_commands import ShellCommands
from support.waiting import eventually

GUARDED = "danger: echo ran >> runs; echo hello"
QUESTION = (
    "May I do this? danger(command='echo ran >> runs; echo hello')\n"
    "I ask because the script calls it dangerous.\n"
    "Say /approve or /deny; nothing else counts."
)
DONE = "exit code 0\nhello"


class ApprovalScenario(GatewayScenario):
    """A scenario in which a guarded command waits for approval."""

    def __init__(self, home: Path, platform: SimulatedPlatform | None = None, **settings: str) -> None:
        super().__init__(home, platform, **settings)
        self.commands = ShellCommands(home)

    async def ask(self, text: str = GUARDED) -> tuple[Button, ...]:
        """Write a message, and wait for the question; return its buttons."""
        self.platform.write(text)
        return await self.wait_for_question(1)

    async def wait_for_question(self, times: int) -> tuple[Button, ...]:
        """Wait until the question was asked this often in all; return the buttons of the newest."""

        def buttons() -> list[tuple[Button, ...]] | None:
            found = [posted.buttons for posted in self.platform.posted if posted.text.startswith("May I do this?")]
            return found if len(found) >= times else None

        return (await eventually(f"it is asked {times} times", buttons))[-1]

    async def wait_for_replies(self, *texts: str, chat: str = "1") -> None:
        """Wait until these are the last replies in a chat."""
        await eventually(
            f"chat {chat} sees {texts}", lambda: self.platform.replies(chat)[-len(texts) :] == list(texts)
        )

    async def last_turn_view(self, store: Store | None = None) -> TurnView:
        return await last_turn(store or self.gateway.store, key_of(self.platform))

    async def turns(self) -> list[TurnView]:
        return await turn_views(self.gateway.store, key_of(self.platform))

    async def wait_for_result(self, call: str = "c1.1") -> ToolEnded:
        """Wait for the result of a call."""

        async def probe() -> ToolEnded | None:
            return (await self.turns())[0].calls[call].ended

        return await eventually(f"{call} has its result", probe)

    async def started_entry(self, call: str = "c1.1") -> ToolStarted:
        found = (await self.turns())[0].calls[call].started
        assert found is not None
        return found

    def runs(self) -> int:
        return self.commands.runs()
