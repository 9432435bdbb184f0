"""Processes in the background over HTTP, for whoever runs the gateway."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from msgspec import structs
from starlette.requests import Request

from perdure.runtime.gateway import Gateway
from perdure.store.processes import Process
from perdure.tools import keeper
from perdure.web.api.turns import read_after, read_path_id
from perdure.web.responses import HttpRefusal
from perdure.web.routes import json_route
from perdure.web.schemas.processes import ProcessListResponse, ProcessOutputResponse, ProcessResource

PAGE_SIZE = 100
MAX_OUTPUT_BYTES = 64 * 1024  # bytes in one answer
OFFSET_PATTERN = re.compile(r"[0-9]{1,15}")


class ProcessApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @json_route(
        "GET",
        "/api/processes",
        "processes in the background, and what became of them; `after` pages by id",
        ProcessListResponse,
        query=("after", "order"),
    )
    async def list(self, request: Request) -> ProcessListResponse:
        after, newest = read_after(request, "process"), request.query_params.get("order") == "newest"
        found = await self._gateway.store.processes.page(after, PAGE_SIZE + 1, newest=newest)
        return ProcessListResponse([process_resource(each) for each in found[:PAGE_SIZE]], len(found) > PAGE_SIZE)

    @json_route(
        "GET",
        "/api/processes/{id}",
        "one process with its output, from `offset` on or the end of it",
        ProcessOutputResponse,
        query=("offset",),
    )
    async def get(self, request: Request) -> ProcessOutputResponse:
        """One process with some of its output: from `offset` on, or the end of it."""
        name = read_path_id(request, "id", "process")
        process = await self._gateway.store.processes.get(name)
        if process is None:
            raise HttpRefusal(404, f"no process is named {name!r}", "GET /api/processes lists them.")
        return await read_process_output(self._gateway, process, _read_offset(request))


async def read_process_output(gateway: Gateway, process: Process, offset: int | None) -> ProcessOutputResponse:
    """A process with its output from the offset on, or the last of its output, as far as this machine has it."""
    directory = gateway.settings.home / "keepers" / process.directory
    return await asyncio.to_thread(_read_output, process, directory, offset)


def _read_output(process: Process, directory: Path, offset: int | None) -> ProcessOutputResponse:
    size = keeper.output_size(directory)
    begin = max(0, size - MAX_OUTPUT_BYTES) if offset is None else offset
    final = process.state != "live"
    text, after = keeper.read_output_text(directory, begin, MAX_OUTPUT_BYTES, final=final)
    return ProcessOutputResponse(
        **structs.asdict(process_resource(process)),
        output=text,
        offset=begin,
        next=after,
        size=size,
        here=directory.exists(),
    )


def _read_offset(request: Request) -> int | None:
    given = request.query_params.get("offset", "")
    if given and not OFFSET_PATTERN.fullmatch(given):
        raise HttpRefusal(
            400, f"offset={given[:60]!r} is no place in the output", "Give the `next` of the answer before."
        )
    return int(given) if given else None


def process_resource(process: Process) -> ProcessResource:
    return ProcessResource(
        id=process.id,
        key=process.key,
        session=process.session,
        turn=process.turn,
        command=process.command,
        state=process.state,
        exit_code=process.exit_code,
        signal=process.signal,
        started_at=process.started_at,
        ended_at=process.ended_at,
        notify_on_complete=bool(process.notify),
        watch_patterns=process.active_patterns,
        told=process.told,
    )
