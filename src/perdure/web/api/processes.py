"""Processes in the background over HTTP, for whoever runs the gateway."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.runtime.gateway import Gateway
from perdure.store.processes import Process
from perdure.tools import keeper
from perdure.web.api.turns import read_after, read_path_id
from perdure.web.responses import HttpRefusal, json_response
from perdure.web.routes import route
from perdure.web.schemas.history import ProcessListResponse, ProcessOutputResponse

PAGE_SIZE = 100
MAX_OUTPUT_BYTES = 64 * 1024  # bytes in one answer
OFFSET_PATTERN = re.compile(r"[0-9]{1,15}")


class ProcessApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @route(
        "GET",
        "/api/processes",
        "processes in the background, and what became of them; `after` pages by id",
        query=("after", "order"),
        response_type=ProcessListResponse,
    )
    async def list(self, request: Request) -> Response:
        after, newest = read_after(request, "process"), request.query_params.get("order") == "newest"
        found = await self._gateway.store.processes.page(after, PAGE_SIZE + 1, newest=newest)
        return json_response(
            {"processes": [process_fields(one) for one in found[:PAGE_SIZE]], "more": len(found) > PAGE_SIZE}
        )

    @route(
        "GET",
        "/api/processes/{id}",
        "one process with its output, from `offset` on or the end of it",
        query=("offset",),
        response_type=ProcessOutputResponse,
    )
    async def get(self, request: Request) -> Response:
        """One process with some of its output: from `offset` on, or the end of it."""
        name = read_path_id(request, "id", "process")
        process = await self._gateway.store.processes.get(name)
        if process is None:
            raise HttpRefusal(404, f"no process is named {name!r}", "GET /api/processes lists them.")
        place = self._gateway.settings.home / "keepers" / process.directory
        output = await asyncio.to_thread(read_output, place, _read_offset(request), final=process.state != "live")
        return json_response(process_fields(process) | output)


def read_output(directory: Path, offset: int | None, *, final: bool) -> dict[str, Any]:
    """What a command has said, as far as it was kept here; without an offset, the last of it."""
    size = keeper.output_size(directory)
    begin = max(0, size - MAX_OUTPUT_BYTES) if offset is None else offset
    text, after = keeper.read_output_text(directory, begin, MAX_OUTPUT_BYTES, final=final)
    return {"output": text, "offset": begin, "next": after, "size": size, "here": directory.exists()}


def _read_offset(request: Request) -> int | None:
    given = request.query_params.get("offset", "")
    if given and not OFFSET_PATTERN.fullmatch(given):
        raise HttpRefusal(
            400, f"offset={given[:60]!r} is no place in the output", "Give the `next` of the answer before."
        )
    return int(given) if given else None


def process_fields(process: Process) -> dict[str, Any]:
    """A process under the names that its JSON has."""
    return {
        "id": process.id,
        "key": process.key,
        "session": process.session,
        "turn": process.turn,
        "command": process.command,
        "state": process.state,
        "exit_code": process.exit_code,
        "signal": process.signal,
        "started_at": process.started_at,
        "ended_at": process.ended_at,
        "notify_on_complete": bool(process.notify),
        "watch_patterns": process.active_patterns,
        "told": process.told,
    }
