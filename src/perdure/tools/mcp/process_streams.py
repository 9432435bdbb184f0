"""Starts the process of an MCP server, and exchanges messages over its pipes: JSON, one per line.

It loads the MCP SDK, whose own client reads a line of any length into memory. This one has a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, cast

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from perdure.tools.sandbox import ConfinedLaunch

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

FLUSH_SECONDS = 0.5  # to write what was accepted, before the input of the process is closed
EXIT_SECONDS = 2.0  # for the process to end by itself, and again after SIGTERM
POLL_SECONDS = 0.01
CLOSED = (anyio.ClosedResourceError, anyio.BrokenResourceError, anyio.EndOfStream, OSError)

Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def open_process_streams(
    launch: ConfinedLaunch,
    folder: Path | None,
    errors: TextIO,
    max_bytes: int,
    mark_oversized: Callable[[], None],
) -> AsyncIterator[TransportStreams]:
    """Start the process in a folder; at the end of the block, end it with its whole process group.

    A message of more than `max_bytes` ends the connection, after `mark_oversized` was called.
    """
    process = await anyio.open_process(
        launch.argv,
        env=launch.env,
        stderr=errors,
        cwd=folder,
        pass_fds=launch.pass_fds,
        start_new_session=True,
    )
    to_us, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, to_server = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(_read_messages, _output(process), to_us, max_bytes, mark_oversized)
        group.start_soon(_write_messages, _input(process), to_server, to_us, written)
        try:
            yield incoming, outgoing
        finally:
            with anyio.CancelScope(shield=True):
                incoming.close()  # the reader only drains the output from now on, so that the process can end
                outgoing.close()
                with anyio.move_on_after(FLUSH_SECONDS):
                    await written.wait()
                await _stop(process)
                for each in (incoming, outgoing, to_us, to_server):
                    await each.aclose()
            group.cancel_scope.cancel()


async def _read_messages(
    output: ByteReceiveStream, to_us: Incoming, max_bytes: int, mark_oversized: Callable[[], None]
) -> None:
    with suppress(*CLOSED):
        async with to_us:
            rest = bytearray()
            async for piece in output:
                *lines, last = piece.split(b"\n")
                for line in lines:
                    await to_us.send(_parse(bytes(rest + line)))
                    rest.clear()
                rest += last
                if len(rest) > max_bytes:
                    mark_oversized()
                    break
    with anyio.CancelScope(shield=True), suppress(*CLOSED):
        while True:
            await output.receive()


def _parse(line: bytes) -> SessionMessage | Exception:
    """A message; what is none becomes an error that the session reports."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _write_messages(
    stdin: ByteSendStream,
    to_server: MemoryObjectReceiveStream[SessionMessage],
    to_us: Incoming,
    written: anyio.Event,
) -> None:
    try:
        async with to_server:
            async for each in to_server:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await stdin.send(f"{line}\n".encode())
    except CLOSED:
        await to_us.aclose()  # the connection ends: no request waits for ever
    finally:
        written.set()


async def _stop(process: Process) -> None:
    """Close the input, and kill the process group if the process does not end."""
    with suppress(*CLOSED):
        await _input(process).aclose()
    if not await _has_ended(process):
        await terminate_posix_process_tree(process, EXIT_SECONDS)
        await _has_ended(process)
    with suppress(*CLOSED):
        await _output(process).aclose()  # whoever has inherited it may hold it open
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    if isinstance(transport, asyncio.SubprocessTransport):
        transport.close()


def _input(process: Process) -> ByteSendStream:
    return cast("ByteSendStream", process.stdin)  # a pipe, because none was given


def _output(process: Process) -> ByteReceiveStream:
    return cast("ByteReceiveStream", process.stdout)


async def _has_ended(process: Process) -> bool:
    """Wait a little. Not by `wait()`, which also waits until nobody has the pipes open any more."""
    for _ in range(int(EXIT_SECONDS / POLL_SECONDS)):
        if process.returncode is not None:
            break
        await anyio.sleep(POLL_SECONDS)
    return process.returncode is not None
