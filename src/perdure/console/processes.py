"""Processes in the background over HTTP, for whoever runs the gateway."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.accounts import Output, Processes
from perdure.console.answers import Refusal, answer
from perdure.console.routes import call
from perdure.console.turns import our_id, read_after
from perdure.runtime.gateway import Gateway
from perdure.store.processes import Process
from perdure.tools import remains

PAGE = 100
MOST_OUTPUT = 64 * 1024  # bytes in one answer
POSITION = re.compile(r"[0-9]{1,15}")


class ProcessApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "GET",
        "/api/processes",
        "processes in the background, and what became of them; `after` pages by id",
        query=("after", "order"),
        answer=Processes,
    )
    async def list(self, request: Request) -> Response:
        after, newest = read_after(request, "process"), request.query_params.get("order") == "newest"
        found = await self._gateway.store.processes.page(after, PAGE + 1, newest=newest)
        return answer({"processes": [fields(one) for one in found[:PAGE]], "more": len(found) > PAGE})

    @call(
        "GET",
        "/api/processes/{id}",
        "one process with its output, from `offset` on or the end of it",
        query=("offset",),
        answer=Output,
    )
    async def get(self, request: Request) -> Response:
        """One process with some of its output: from `offset` on, or the end of it."""
        name = our_id(request, "id", "process")
        process = await self._gateway.store.processes.get(name)
        if process is None:
            raise Refusal(404, f"no process is named {name!r}", "GET /api/processes lists them.")
        place = self._gateway.settings.home / "keepers" / process.directory
        output = await asyncio.to_thread(output_of, place, _offset(request), final=process.state != "live")
        return answer(fields(process) | output)


def output_of(place: Path, offset: int | None, *, final: bool) -> dict[str, Any]:
    """What a command has said, as far as it was kept here; without an offset, the last of it."""
    size = remains.size(place)
    begin = max(0, size - MOST_OUTPUT) if offset is None else offset
    text, after = remains.read_text(place, begin, MOST_OUTPUT, final=final)
    return {"output": text, "offset": begin, "next": after, "size": size, "here": place.exists()}


def _offset(request: Request) -> int | None:
    given = request.query_params.get("offset", "")
    if given and not POSITION.fullmatch(given):
        raise Refusal(
            400, f"offset={given[:60]!r} is no place in the output", "Give the `next` of the answer before."
        )
    return int(given) if given else None


def fields(process: Process) -> dict[str, Any]:
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
        "watch_patterns": process.watches,
        "told": process.told,
    }
