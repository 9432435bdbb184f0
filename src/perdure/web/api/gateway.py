"""The gateway over HTTP: health, readiness, status, the configuration in effect, and the endpoints of the demo."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from starlette.background import BackgroundTask
from starlette.requests import Request

from perdure.core import texts
from perdure.core.logins import Scope
from perdure.operations.gateways import (
    DrainResponse,
    GatewayListResponse,
    GatewayResource,
    ask_to_drain,
    list_gateways,
)
from perdure.operations.inspect import effective_settings
from perdure.runtime.gateway import Gateway, Phase
from perdure.settings import Settings
from perdure.tools.offline_tools import recent_runs
from perdure.web.routes import GatewayApi, JsonReply, json_route
from perdure.web.schemas import (
    ConfigurationResponse,
    HealthResponse,
    KillResponse,
    ReadinessResponse,
    SandboxResource,
    StatusResponse,
    StepRunsResponse,
    UnservedResource,
)


class HealthApi(GatewayApi):
    """Probes for whoever keeps the gateway running; they need no login."""

    @json_route(
        "GET",
        "/healthz",
        "200 while the database takes writes, otherwise 503",
        HealthResponse,
        login="no",
        statuses=(200, 503),
    )
    async def live(self, _: Request) -> JsonReply[HealthResponse]:
        """Whether the database takes writes."""
        problem = self._gateway.store.problem
        return JsonReply(HealthResponse(problem is None, [problem] if problem else []), 503 if problem else 200)

    @json_route(
        "GET",
        "/readyz",
        "200 while every platform is connected and the gateway is not stopping, otherwise 503",
        ReadinessResponse,
        login="no",
        statuses=(200, 503),
    )
    async def ready(self, _: Request) -> JsonReply[ReadinessResponse]:
        """Whether every platform is connected, and the gateway is not stopping."""
        reasons = self._gateway.problems()
        if self._gateway.phase is not Phase.READY:
            reasons.append(texts.http.not_ready(self._gateway.phase))
        standing_by = sorted(self._gateway.loops.connections.standing_by)
        return JsonReply(ReadinessResponse(not reasons, reasons, standing_by), 503 if reasons else 200)


class GatewaysApi(GatewayApi):
    """The gateways that share the database."""

    @json_route(
        "GET",
        "/api/gateways",
        "the gateways that share the database: what each serves, receives and runs, and its last heartbeat",
        GatewayListResponse,
        scope=Scope.READ,
    )
    async def list(self, _: Request) -> GatewayListResponse:
        return GatewayListResponse(await read_gateways(self._gateway))

    @json_route(
        "POST",
        "/api/gateways/{id}/drain",
        "asks a gateway, this one or another, to hand over and stop, see [below](#drain-a-gateway)",
        DrainResponse,
        scope=Scope.OPERATE,
    )
    async def drain(self, request: Request) -> JsonReply[DrainResponse]:
        """Ask a gateway to drain; this one begins once the response is sent."""
        found = await ask_to_drain(self._gateway.store, request.path_params["id"])
        ours = any(each.this and each.id == found.id for each in await read_gateways(self._gateway))
        return JsonReply(found, 200, BackgroundTask(self._drain) if ours else None)

    async def _drain(self) -> None:
        self._gateway.drain()


class ConfigurationApi(GatewayApi):
    @json_route(
        "GET",
        "/api/config",
        "the settings in effect, without the secrets among them",
        ConfigurationResponse,
        scope=Scope.READ,
    )
    async def get(self, _: Request) -> ConfigurationResponse:
        settings = self._gateway.settings
        return ConfigurationResponse(str(settings.home), effective_settings(settings))


async def gateway_status(gateway: Gateway) -> StatusResponse:
    run, sandbox = await gateway.store.runs.get(gateway.operator_verbs.run), gateway.sandbox
    unserved, gateways = await read_unserved(gateway), await read_gateways(gateway)
    shared = [each.text for each in gateways] if len(gateways) > 1 else []
    return StatusResponse(
        phase=gateway.phase,
        run=gateway.operator_verbs.run,
        started_at=run.started_at if run else None,
        problems=gateway.problems() + gateway.warnings(),
        platforms=sorted(gateway.loops.connections.connected),
        running=len(gateway.loops.runner.running),
        resume_paused=gateway.loops.recoverer.paused,
        counts=await gateway.store.gauges.counts(),
        unserved=unserved,
        summary=[*gateway.describe(), *(f"{each.text}." for each in unserved), *shared],
        sandbox=SandboxResource(sandbox.layer, sandbox.network, sandbox.summary),
        gateways=gateways,
    )


async def read_gateways(gateway: Gateway) -> list[GatewayResource]:
    """The gateways that share the database, this one among them."""
    return await list_gateways(gateway.store, gateway.operator_verbs.run, gateway.operator_verbs.clock())


async def read_unserved(gateway: Gateway) -> list[UnservedResource]:
    """What waits because no running gateway can serve it."""
    return [
        UnservedResource(
            each.platform,
            each.agent,
            each.chats,
            each.newer,
            texts.platforms.unserved(each.platform, each.agent, each.chats, newer=each.newer),
        )
        for each in await gateway.store.run_services.unserved()
    ]


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
