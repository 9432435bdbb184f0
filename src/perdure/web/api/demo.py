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

from perdure.settings import Settings
from perdure.tools.offline_tools import recent_runs
from perdure.web.responses import json_response
from perdure.web.routes import route

OFFLINE_MODEL = "offline"


def uses_only_offline_model(settings: Settings) -> bool:
    """Whether nothing is lost with a gateway: on the web, the offline model alone answers."""
    model = settings.platform("web").model or settings.model.name
    return model == OFFLINE_MODEL and settings.agent.entrypoint is None


class KillResponse(Struct, frozen=True):
    killed: int  # the process


class StepRunsResponse(Struct, frozen=True):
    runs: dict[str, int]  # by turn and call


class DemoApi:
    def __init__(self, home: Path) -> None:
        self._step_log = home / "rehearsal.log"

    @route(
        "POST",
        "/api/demo/kill",
        "kills the gateway with `SIGKILL`; only [in the demo](web.md#the-demo)",
        response_type=KillResponse,
        statuses=(202,),
    )
    async def kill(self, _: Request) -> Response:
        """Answer, and die of a real SIGKILL: nothing is written, closed or said any more."""
        dying = BackgroundTask(os.kill, os.getpid(), signal.SIGKILL)
        response = json_response(KillResponse(os.getpid()), 202)
        response.background = dying
        return response

    @route(
        "GET",
        "/api/demo/runs",
        "how often each step of a script really ran; only in the demo",
        response_type=StepRunsResponse,
    )
    async def runs(self, _: Request) -> Response:
        """Counted from the trace that the steps leave, not from the journal."""
        return json_response(StepRunsResponse(Counter(recent_runs(self._step_log))))
