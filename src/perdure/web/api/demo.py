"""Endpoints of the demo: kill the gateway, and count how often each step really ran.

They exist only with the offline model on a loopback address.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request

from perdure.core.logins import Scope
from perdure.settings import Settings
from perdure.tools.offline_tools import recent_runs
from perdure.web.routes import JsonReply, json_route
from perdure.web.schemas import KillResponse, StepRunsResponse

OFFLINE_MODEL = "offline"


def uses_only_offline_model(settings: Settings) -> bool:
    """Whether the offline model alone answers on the web, so that killing the gateway harms nobody."""
    model = settings.platform("web").model or settings.model.name
    return model == OFFLINE_MODEL and settings.agent.entrypoint is None


class DemoApi:
    def __init__(self, home: Path) -> None:
        self._step_log = home / "rehearsal.log"

    @json_route(
        "POST",
        "/api/demo/kill",
        "kills the gateway with `SIGKILL`; only [in the demo](web.md#the-demo)",
        KillResponse,
        statuses=(202,),
        scope=Scope.OPERATE,
    )
    async def kill(self, _: Request) -> JsonReply[KillResponse]:
        """Send the response, then end this process with SIGKILL: it writes and closes nothing any more."""
        return JsonReply(KillResponse(os.getpid()), 202, BackgroundTask(os.kill, os.getpid(), signal.SIGKILL))

    @json_route(
        "GET",
        "/api/demo/runs",
        "how often each step of a script really ran; only in the demo",
        StepRunsResponse,
        scope=Scope.READ,
    )
    async def runs(self, _: Request) -> StepRunsResponse:
        """The runs of each step, counted from the log that steps write themselves, not from the journal."""
        return StepRunsResponse(Counter(recent_runs(self._step_log)))
