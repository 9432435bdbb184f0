"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import sqlite3
import subprocess
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

PACKAGES = (
    "perdure",
    "msgspec",
    "psycopg",
    "dbos",
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langgraph-checkpoint-postgres",
)
BLOCK = b"\0" * 4096


def versions(postgres: Path, packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """The version of everything that took part; `postgres` is the server's folder of programs."""
    server = subprocess.run([postgres / "postgres", "--version"], capture_output=True, text=True, check=True)
    return {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "PostgreSQL": server.stdout.split()[-1],
        "Linux": platform.release().split("-")[0],
        **{package: version(package) for package in packages},
    }


def machine(folder: Path) -> str:
    """The cores, the memory and the file system, in one line."""
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores ({_processor()}), {gigabytes:.0f} GiB of memory, {_file_system(folder)}"


def sync_rate(folder: Path, seconds: float = 0.5) -> float:
    """How often in a second the disk makes four further kilobytes of a file durable."""
    path = folder / "sync"
    file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        os.write(file, BLOCK)
        os.fdatasync(file)
        count += 1
    rate = count / (time.perf_counter() - begin)
    os.close(file)
    path.unlink()
    return rate


class Bystanders:
    """Watches how much CPU the programs of others take."""

    def __init__(self) -> None:
        self._begin, self._others = time.monotonic(), _cpu_of_others()

    def cores(self) -> float:
        """The average since the watch began. Counts children only once they have ended."""
        return max(0.0, (_cpu_of_others() - self._others) / (time.monotonic() - self._begin))


def _cpu_of_others() -> float:
    """The CPU seconds of the whole machine, those that its host took away included, without our own."""
    user, nice, system, _idle, _waiting, *rest = map(
        int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    )
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _file_system(folder: Path) -> str:
    """The kind of the file system that a folder is on."""
    mounts: Iterator[list[str]] = map(str.split, Path("/proc/mounts").read_text().splitlines())
    above = [(mount[1], mount[2]) for mount in mounts if folder.resolve().is_relative_to(mount[1])]
    return max(above, key=lambda mount: len(mount[0]))[1]
