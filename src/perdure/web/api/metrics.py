"""The metrics endpoint, in the text format of Prometheus."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

from perdure.core.logins import Scope
from perdure.core.states import OPEN_STATES, RunEnding
from perdure.errors import Unavailable
from perdure.runtime.gateway import Gateway, Phase
from perdure.store.ids import wall_clock
from perdure.store.metrics import OpenCounts, RecoveryCounts
from perdure.version import __version__
from perdure.web.routes import route

METRICS_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RECOUNT_FACTOR = 50  # pause between counts of recoveries, as a multiple of a count's duration: 2 % load at most

Sample = tuple[str, dict[str, str], float]

METRIC_FAMILIES = {
    "perdure_build_info": ("gauge", "1, with the `version`"),
    "perdure_ready": ("gauge", "1 while every platform is connected and the gateway is not stopping"),
    "perdure_store_healthy": (
        "gauge",
        "1 while the database takes writes; what it counts is missing if it is away",
    ),
    "perdure_heartbeat_steady": (
        "gauge",
        "1 once heartbeats were recorded without a gap for `store.lease`: so long nobody takes over from the dead",
    ),
    "perdure_platform_connected": ("gauge", "1 while the `platform` is connected"),
    "perdure_turns": ("gauge", "turns that are not over, by `state`"),
    "perdure_turns_ended_total": ("counter", "turns that are over, by `outcome`"),
    "perdure_sessions_suspended": ("gauge", "sessions that are suspended"),
    "perdure_inbox_waiting": ("gauge", "messages that wait for their turn"),
    "perdure_outbox_open": ("gauge", "messages to send, by `platform` and `state`: owed, sending or unknown"),
    "perdure_outbox_ended_total": (
        "counter",
        "messages that were sent, refused, expired or withdrawn, by `platform` and `state`",
    ),
    "perdure_chats_unserved": (
        "gauge",
        "chats in which something waits that no running gateway can serve, by `platform` and `agent`",
    ),
    "perdure_takeovers_put_aside": ("gauge", "turns of dead gateways that could not be taken over yet"),
    "perdure_unknown_sends_resolved_total": (
        "counter",
        "sends of which nobody knew whether they arrived, by what was done about it (`by`); since the start",
    ),
    "perdure_interruptions_total": ("counter", "how often a turn was cut off"),
    "perdure_recovery_decisions_total": (
        "counter",
        "what recovery decided about turns that were cut off, by `decision` and `rule`",
    ),
    "perdure_recovery_paused": ("gauge", "1 while automatic resume is paused after a crash loop"),
    "perdure_runs_ended_total": ("counter", "runs of the gateway, by their `ending`: clean or lost"),
    "perdure_processes_live": ("gauge", "processes in the background"),
    "process_cpu_seconds_total": ("counter", "CPU time of the gateway"),
    "process_resident_memory_bytes": ("gauge", "memory of the gateway"),
    "process_open_fds": ("gauge", "files and connections that the gateway has open"),
    "process_start_time_seconds": ("gauge", "when the gateway was started"),
}


class MetricsApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._started_at_seconds = wall_clock() / 1000
        self._count_lock = asyncio.Lock()
        self._last_recoveries: RecoveryCounts | None = None
        self._recount_at = 0.0

    @route(
        "GET",
        "/metrics",
        "[figures](operations.md#metrics) for Prometheus",
        media_type=METRICS_MEDIA_TYPE,
        scope=Scope.READ,
    )
    async def scrape(self, _: Request) -> Response:
        samples = [
            *self._gateway_samples(),
            *_process_samples(),
            ("process_start_time_seconds", {}, self._started_at_seconds),
        ]
        # While the database is unavailable, `perdure_store_healthy` is 0, and the other samples are still sent.
        with suppress(Unavailable):
            store = self._gateway.store
            samples += _open_samples(await store.gauges.counts())
            for (platform, state), count in sorted((await store.counters.open_replies()).items()):
                samples.append(("perdure_outbox_open", {"platform": platform, "state": state}, count))
            samples += await self._stranded_samples()
            samples += [sample async for sample in self._total_samples()]
        return Response(_format_samples(samples), headers={"Content-Type": METRICS_MEDIA_TYPE})

    async def _stranded_samples(self) -> list[Sample]:
        services = self._gateway.store.run_services
        unserved: list[Sample] = [
            ("perdure_chats_unserved", {"platform": each.platform, "agent": each.agent}, each.chats)
            for each in await services.unserved()
        ]
        return [*unserved, ("perdure_takeovers_put_aside", {}, await services.count_put_aside())]

    def _gateway_samples(self) -> Iterator[Sample]:
        gateway, loops = self._gateway, self._gateway.loops
        yield "perdure_build_info", {"version": __version__}, 1
        yield "perdure_ready", {}, gateway.phase is Phase.READY and not gateway.problems()
        yield "perdure_store_healthy", {}, gateway.store.problem is None
        yield "perdure_heartbeat_steady", {}, loops.heartbeat.is_steady
        for name in (adapter.name for adapter in gateway.adapters):
            yield "perdure_platform_connected", {"platform": name}, name in loops.connections.connected
        yield "perdure_recovery_paused", {}, loops.recoverer.paused
        for by, count in sorted(loops.delivery.resolved.items()):
            yield "perdure_unknown_sends_resolved_total", {"by": by.name.lower()}, count

    async def _total_samples(self) -> AsyncIterator[Sample]:
        async with self._count_lock:
            counters = self._gateway.store.counters
            ended = await counters.ended_turns()
            for outcome in ("done", "failed", "cancelled"):
                yield "perdure_turns_ended_total", {"outcome": outcome}, ended["", outcome]
            for (platform, state), count in sorted((await counters.ended_replies()).items()):
                yield "perdure_outbox_ended_total", {"platform": platform, "state": state}, count
            for sample in _recovery_samples(await self._count_recoveries()):
                yield sample

    async def _count_recoveries(self) -> RecoveryCounts:
        """The last count of recoveries, or a new count if the last one is too old."""
        began = time.monotonic()
        if self._last_recoveries is None or began >= self._recount_at:
            self._last_recoveries = await self._gateway.store.counters.recoveries()
            ended = time.monotonic()
            self._recount_at = ended + RECOUNT_FACTOR * (ended - began)
        return self._last_recoveries


def _open_samples(counts: OpenCounts) -> Iterator[Sample]:
    for state in OPEN_STATES:
        yield "perdure_turns", {"state": state}, getattr(counts, state)
    yield "perdure_sessions_suspended", {}, counts.suspended
    yield "perdure_inbox_waiting", {}, counts.messages
    yield "perdure_processes_live", {}, counts.processes


def _recovery_samples(found: RecoveryCounts) -> Iterator[Sample]:
    yield "perdure_interruptions_total", {}, found.interruptions
    for (decision, rule), count in sorted(found.decisions.items()):
        yield "perdure_recovery_decisions_total", {"decision": decision, "rule": rule}, count
    for ending in RunEnding:
        yield "perdure_runs_ended_total", {"ending": ending}, found.runs.get(ending, 0)


def _process_samples() -> Iterator[Sample]:
    yield "process_cpu_seconds_total", {}, time.process_time()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    yield "process_resident_memory_bytes", {}, pages * resource.getpagesize()
    yield "process_open_fds", {}, len([*Path("/proc/self/fd").iterdir()])


def _format_samples(samples: Iterable[Sample]) -> str:
    """The samples by family, each family below its HELP and TYPE lines."""
    lines: dict[str, list[str]] = {}
    for name, labels, value in samples:
        kind, meaning = METRIC_FAMILIES[name]
        family = lines.setdefault(name, [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"])
        spelled = ",".join(f'{label}="{_escape_label(text)}"' for label, text in labels.items())
        family.append(
            f"{name}{{{spelled}}} {_format_number(value)}" if labels else f"{name} {_format_number(value)}"
        )
    return "\n".join([*(line for family in lines.values() for line in family), ""])


def _format_number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)


def _escape_label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
