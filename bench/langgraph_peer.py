"""LangGraph's checkpointer: each session is a thread, each append a checkpoint with the same text."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import Any

from bench.window import TEXT, Measured, Window

CONNECTIONS = 20


def measure(url: str, sessions: int, seconds: float) -> Measured:
    return asyncio.run(_measure(url, sessions, seconds))


async def _measure(url: str, sessions: int, seconds: float) -> Measured:
    opened = _sqlite(url) if url.startswith("sqlite:") else _postgres(url)
    async with opened as saver:
        await saver.setup()
        window = Window(sessions, seconds)
        window.open()
        async with asyncio.TaskGroup() as group:
            for place in range(sessions):
                group.create_task(_session(saver, window, place))
    return window.close()


@asynccontextmanager
async def _sqlite(url: str) -> Any:
    from langgraph.checkpoint.sqlite.aio import (  # type: ignore[import-not-found, unused-ignore]
        AsyncSqliteSaver,
    )

    async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
        await saver.setup()
        await saver.conn.execute("PRAGMA synchronous = FULL")
        yield saver


@asynccontextmanager
async def _postgres(url: str) -> Any:
    from langgraph.checkpoint.postgres.aio import (  # type: ignore[import-not-found, unused-ignore]
        AsyncPostgresSaver,
    )
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool  # type: ignore[import-not-found, unused-ignore]

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool: Any
    async with AsyncConnectionPool(url, min_size=CONNECTIONS, max_size=CONNECTIONS, kwargs=options) as pool:
        yield AsyncPostgresSaver(pool)


async def _session(saver: Any, window: Window, place: int) -> None:
    from langgraph.checkpoint.base import empty_checkpoint  # type: ignore[import-not-found, unused-ignore]

    config = {"configurable": {"thread_id": f"thread-{place}", "checkpoint_ns": ""}}
    while not window.over:
        number = window.counts[place]
        version = f"{number:032d}"
        state = {"result": f"call_{number:08d} ok {TEXT}"}
        checkpoint = empty_checkpoint() | {"channel_values": state, "channel_versions": {"result": version}}
        metadata = {"source": "loop", "step": number, "parents": {}}
        config = await saver.aput(config, checkpoint, metadata, {"result": version})
        window.counts[place] = number + 1
