"""Background processes and their output over HTTP."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import structs
from starlette.requests import Request

from perdure.core import texts
from perdure.core.logins import Scope
from perdure.core.states import ProcessState
from perdure.errors import NotFound
from perdure.operations.resources import cut_page
from perdure.runtime.gateway import Gateway
from perdure.runtime.process_records import wait_for_output
from perdure.store.processes import Process
from perdure.tools import keeper
from perdure.web.auth.login import login_of, require_reach
from perdure.web.requests import read_after, read_offset, read_path_id
from perdure.web.routes import GatewayApi, json_route
from perdure.web.schemas import ProcessListResponse, ProcessOutputResponse, ProcessResource

PAGE_SIZE = 100
MAX_OUTPUT_BYTES = 64 * 1024  # in one response


class ProcessApi(GatewayApi):
    @json_route(
        "GET",
        "/api/processes",
        "processes in the background, and what became of them; `after` pages by id",
        ProcessListResponse,
        query=("after", "order"),
        scope=Scope.READ,
        own=True,
    )
    async def list(self, request: Request) -> ProcessListResponse:
        after, newest = read_after(request, "process"), request.query_params.get("order") == "newest"
        processes, more = await list_own_processes(self._gateway, request, after, PAGE_SIZE, newest=newest)
        return ProcessListResponse([process_resource(each) for each in processes], more)

    @json_route(
        "GET",
        "/api/processes/{id}",
        "one process with its output, from `offset` on or the end of it",
        ProcessOutputResponse,
        query=("offset",),
        scope=Scope.READ,
        own=True,
    )
    async def get(self, request: Request) -> ProcessOutputResponse:
        """One process with some of its output: from `offset` on, or the end of it."""
        process = await find_own_process(self._gateway, request)
        return await read_process_output(self._gateway, process, read_offset(request))


async def list_own_processes(
    gateway: Gateway, request: Request, after: str, limit: int, *, newest: bool
) -> tuple[list[Process], bool]:
    """A page of the processes that the login may know of, and whether there are more."""
    person = None if login_of(request).is_owner else login_of(request).person.id
    found = await gateway.store.processes.page(after, limit + 1, newest=newest, person=person)
    return cut_page(found, limit)


async def find_own_process(gateway: Gateway, request: Request) -> Process:
    """The process that the path names, if the login may know of it."""
    name = read_path_id(request, "id", "process")
    process = await gateway.store.processes.get(name)
    if process is None:
        raise NotFound(texts.http.unknown_process(name), hint=texts.http.PROCESS_IDS_HINT)
    require_reach(request, process.key, "process", name)
    return process


async def read_process_output(gateway: Gateway, process: Process, offset: int | None) -> ProcessOutputResponse:
    """A process with its output from the offset on, or the last of its output, as far as this machine has it."""
    directory = gateway.settings.home / "keepers" / process.directory
    if not gateway.store.database.exclusive and not directory.exists():
        return await _read_elsewhere(gateway, process)
    return await asyncio.to_thread(_read_output, process, directory, offset)


async def _read_elsewhere(gateway: Gateway, process: Process) -> ProcessOutputResponse:
    """A process of another machine, with the end of its output as its gateway has recorded it."""
    seen = await wait_for_output(gateway.store, process.id)
    output, size = (seen.output, seen.output_size or 0) if seen else ("", 0)
    return ProcessOutputResponse(
        **structs.asdict(process_resource(process)),
        output=output,
        offset=max(0, size - len(output.encode())),
        next=size,
        size=size,
        here=False,
        gateway=seen.gateway if seen else "",
    )


def _read_output(process: Process, directory: Path, offset: int | None) -> ProcessOutputResponse:
    size = keeper.output_size(directory)
    begin = max(0, size - MAX_OUTPUT_BYTES) if offset is None else offset
    final = process.state is not ProcessState.LIVE
    text, after = keeper.read_output_text(directory, begin, MAX_OUTPUT_BYTES, final=final)
    return ProcessOutputResponse(
        **structs.asdict(process_resource(process)),
        output=text,
        offset=begin,
        next=after,
        size=size,
        here=directory.exists(),
        gateway="",
    )


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
