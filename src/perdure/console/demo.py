"""The demo: a gateway that anybody may kill, to see that nothing is lost.

It is there with the offline model on a loopback address, and nowhere else: elsewhere these paths do not exist.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from msgspec import Struct
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import answer
from perdure.console.routes import call
from perdure.settings import Settings
from perdure.tools.rehearsal import runs

OFFLINE = "offline"


def is_scripted(settings: Settings) -> bool:
    """Whether nothing is lost with a gateway: on the web, the offline model alone answers."""
    model = settings.platform("web").model or settings.model.name
    return model == OFFLINE and settings.agent.entrypoint is None


class Killed(Struct, frozen=True):
    killed: int  # the process


class Runs(Struct, frozen=True):
    runs: dict[str, int]  # by turn and call


class Demo:
    def __init__(self, home: Path) -> None:
        self._trace = home / "rehearsal.log"

    @call(
        "POST",
        "/api/demo/kill",
        "kills the gateway with `SIGKILL`; only [in the demo](web.md#the-demo)",
        answer=Killed,
        statuses=(202,),
    )
    async def kill(self, _: Request) -> Response:
        """Answer, and die of a real SIGKILL: nothing is written, closed or said any more."""
        dying = BackgroundTask(os.kill, os.getpid(), signal.SIGKILL)
        response = answer(Killed(os.getpid()), 202)
        response.background = dying
        return response

    @call("GET", "/api/demo/runs", "how often each step of a script really ran; only in the demo", answer=Runs)
    async def runs(self, _: Request) -> Response:
        """Counted from the trace that the steps leave, not from the journal."""
        return answer(Runs(Counter(runs(self._trace))))
