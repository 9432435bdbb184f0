"""Two gateways with homes of their own on one PostgreSQL, each a process of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import psycopg

from support.gateway import GatewayProcess


class GatewayPair:
    """Two gateways that share a database."""

    def __init__(self, folder: Path, url: str, **settings: str) -> None:
        self.url = url
        self.first, self.second = (
            GatewayProcess(folder / name, STORE__URL=url, STORE__LEASE="2s", **settings) for name in ("one", "two")
        )

    def start(self) -> None:
        self.first.start()
        self.second.start()

    def query(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode()).fetchall()

    def close(self) -> None:
        self.first.close()
        self.second.close()


def call(process: GatewayProcess, method: str, path: str, **options: Any) -> httpx.Response:
    """Make a call with the token of the gateway's home."""
    headers = {"Authorization": f"Bearer {process.token}"}
    return httpx.request(method, f"{process.url}{path}", headers=headers, timeout=60, **options)
