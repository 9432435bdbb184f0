"""An agent for gateway processes whose steps hang while a file exists: `step_control:agent`.

A test copies this file into the home. A step NAME hangs while the file `stuck/NAME` exists, each run is noted in
`runs`, and each request to the model in `requests`. A message `finish: WORD` is answered with that finish; then
the agent hangs, as if it died before the end of its turn; the next attempt answers anew.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

from perdure.agents.api import ModelRequest, PreviewCallback, Reply, TurnContext
from perdure.agents.builtin_agent import BuiltinAgent
from perdure.agents.offline_model import OfflineModel
from perdure.core.conversation import NoteMessage, UserMessage
from perdure.core.effects import Effect
from perdure.core.journal import ModelAnswered, TokenUsage
from perdure.core.tools import Tool, Use
from perdure.testing.waiting import eventually

FOREVER_SECONDS = 3600.0


class StepControl:
    """Controls and reads the files of the agent, in the test and in the gateway."""

    def __init__(self, home: Path) -> None:
        self._stuck = home / "stuck"
        self._runs = home / "runs"
        self._requests = home / "requests"

    def install(self) -> None:
        self._stuck.mkdir(parents=True)
        for trace in (self._runs, self._requests):
            trace.touch()
        shutil.copy(__file__, self._stuck.parent)

    def block(self, *steps: str) -> None:
        """Let these steps hang from now on."""
        for step in steps:
            (self._stuck / step).touch()

    def release(self, *steps: str) -> None:
        """Release these steps."""
        for step in steps:
            (self._stuck / step).unlink()

    def is_blocked(self, step: str) -> bool:
        return (self._stuck / step).exists()

    def run_count(self, step: str) -> int:
        """Count the runs of a step."""
        return self._runs.read_text().splitlines().count(step)

    def requests(self, words: str = "") -> list[dict[str, list[str]]]:
        """Return the users' `words` and the `notes` of each request that begins with these words."""
        read = [json.loads(line) for line in self._requests.read_text().splitlines()]
        return [each for each in read if "\n".join(each["words"]).startswith(words)]

    def notes(self, words: str) -> list[list[str]]:
        return [each["notes"] for each in self.requests(words)]

    def record_run(self, step: str) -> None:
        with self._runs.open("a") as runs:
            runs.write(f"{step}\n")

    def record_request(self, request: ModelRequest) -> None:
        kinds: dict[str, Any] = {"words": UserMessage, "notes": NoteMessage}
        said = {
            name: [each.text for each in request.messages if isinstance(each, kind)]
            for name, kind in kinds.items()
        }
        with self._requests.open("a") as requests:
            requests.write(f"{json.dumps(said)}\n")


class RecordingOfflineModel(OfflineModel):
    """The offline model; it records every request."""

    async def respond(self, request: ModelRequest, show_preview: PreviewCallback | None = None) -> ModelAnswered:
        _step_control().record_request(request)
        return await super().respond(request, show_preview)


class StepControlAgent:
    """The built-in agent with a controlled step, or one that hangs after `finish: WORD`."""

    def __init__(self) -> None:
        self._loop = BuiltinAgent(
            RecordingOfflineModel(), [Tool("step", "may be repeated", _run_step, Effect.PURE)]
        )

    async def run(self, context: TurnContext) -> Reply:
        word = context.view.causes[0].text.partition("finish: ")[2]
        if not word:
            return await self._loop.run(context)
        if context.view.attempt > 1:
            return Reply("asked again")
        finish = None if word == "none" else word
        await context.append(ModelAnswered(1, "the answer", (), finish, TokenUsage(1, 1)))
        await asyncio.Event().wait()
        raise AssertionError("nobody wakes this agent")


async def _run_step(use: Use) -> str:
    control, step = _step_control(), str(use.arguments["name"])
    control.record_run(step)
    await eventually(f"{step} is released", lambda: not control.is_blocked(step), FOREVER_SECONDS)
    return f"{step}: done"


def _step_control() -> StepControl:
    """Return the files of the gateway of this process."""
    return StepControl(Path(os.environ["PERDURE_HOME"]))


agent = StepControlAgent()
