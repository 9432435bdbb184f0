"""Processes in the background over HTTP, for whoever runs the gateway."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from perdure.console.answers import OUR_ID, Refusal, answer
from perdure.console.routes import call
from perdure.runtime.gateway import Gateway
from perdure.store.processes import Process

PAGE = 100


class ProcessApi:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    @call(
        "GET",
        "/api/processes",
        "every process that was begun in the background, and what became of it; `after` pages by id",
    )
    async def list(self, request: Request) -> Response:
        after = request.query_params.get("after", "")
        if after and not OUR_ID.fullmatch(after):
            raise Refusal(400, f"after={after[:60]!r} is no id of a process", "Give the id of the last one seen.")
        found = await self._gateway.store.processes.page(after, PAGE + 1)
        return answer({"processes": [fields(one) for one in found[:PAGE]], "more": len(found) > PAGE})


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
