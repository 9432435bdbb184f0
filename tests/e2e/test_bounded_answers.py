"""Answers of servers that we ask are read up to a limit, before and after decompression (B108).

Drives `http_limits`, `httpx_limits`, `agents/providers/http_client`, `tools/mcp` and `tools/fetch`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.bomb_server import MEBIBYTE, UNPACKED_MEBIBYTES, bomb_server
from support.gateway import Person, gateway
from support.waiting import DEADLINE_FACTOR

TESTS = Path(__file__).parents[1]
MAX_GROWTH = 200 * MEBIBYTE  # with all libraries that are loaded for it; the answers have a gigabyte
TOO_LARGE = re.compile(r"larger than|more than|exceeded", re.IGNORECASE)


@pytest.fixture(scope="module")
def bombs() -> Iterator[str]:
    with bomb_server() as url:
        yield url


def read(kind: str, target: str = "") -> tuple[str, int]:
    """What a process of its own made of a server, and how much its memory grew."""
    environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-m", "support.bomb_reader", kind, target],
        cwd=TESTS,
        env=environment | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        text=True,
        timeout=120 * DEADLINE_FACTOR,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    *words, growth = done.stdout.splitlines()
    return "\n".join(words), int(growth)


@pytest.mark.parametrize(
    ("kind", "bomb"),
    [
        ("provider", "json-gzip"),
        ("provider", "json-plain"),
        ("provider", "events-gzip"),
        ("provider", "events-plain"),
        ("provider", "events-lines"),
        ("provider-httpx", "json-gzip"),
        ("provider-httpx", "json-plain"),
        ("provider-httpx", "events-gzip"),
        ("mcp", "json-gzip"),
        ("mcp", "json-plain"),
        ("mcp", "events-gzip"),
        ("mcp", "events-plain"),
    ],
)
def test_b108_answer_is_not_read_beyond_its_limit(bombs: str, kind: str, bomb: str) -> None:
    said, growth = read(kind, f"{bombs}/{bomb}")
    assert TOO_LARGE.search(said), said
    assert growth < MAX_GROWTH < UNPACKED_MEBIBYTES * MEBIBYTE


def test_b108_message_of_a_process_is_not_read_beyond_its_limit() -> None:
    said, growth = read("mcp-process")
    assert "it sent a message of more than 8.39 MB" in said
    assert growth < MAX_GROWTH


@pytest.mark.parametrize("bomb", ["page-gzip", "page-plain"])
def test_b108_page_is_shown_up_to_its_limit(bombs: str, bomb: str) -> None:
    said, growth = read("page", f"{bombs}/{bomb}")
    assert "begins" in said
    assert growth < MAX_GROWTH


def test_b108_gateway_stays_small_when_its_provider_sends_a_gigabyte(tmp_path: Path, bombs: str) -> None:
    settings = {"MODEL__NAME": "openai:big", "MODEL__BASE_URL": f"{bombs}/events-gzip", "MODEL__API_KEY": "none"}
    with gateway(tmp_path / "home", **settings) as process:
        person = Person(process)
        person.say("hello")
        assert person.wait_for_replies(1)
        assert process.process is not None
        status = Path(f"/proc/{process.process.pid}/status").read_text()
        peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
        assert peak < 2 * MAX_GROWTH
