"""The id of a gateway: a random one, kept in its home, whose lock allows one gateway at a time.

A copy of a home has the same id. Two gateways with one id would take each other's commands and files for their
own, so the one that starts while the other lives is refused.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.errors import ConfigurationError, Unavailable
from perdure.logs import Log
from perdure.runtime.clocks import boot_seconds
from perdure.runtime.run_observer import HEARTBEATS_PER_LEASE, RunObserver
from perdure.store.runs import CopiedRun, Instance, Runs

log = Log("instance")

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _InstanceFile(Struct, frozen=True):
    id: str
    former: str


def load_instance(home: Path) -> Instance:
    """Return what the gateway of this home, whose lock we hold, is known by. Its id is made at the first start."""
    path, here = home / "instance", f"{socket.gethostname()}:{home.resolve()}"
    try:
        kept = _read(path) or _create(path, here)
        lock = (home / "lock").stat()
        return Instance(kept.id, kept.former, f"{_BOOT_ID.read_text().strip()}:{lock.st_dev}:{lock.st_ino}", here)
    except OSError as error:
        raise ConfigurationError(
            f"{path} cannot be used: {error.strerror}",
            hint="Let this user read and write it, or choose another home with PERDURE_HOME.",
        ) from error


def _read(path: Path) -> _InstanceFile | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_InstanceFile)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise ConfigurationError(
            texts.recovery.damaged_instance(str(path)), hint=texts.recovery.DAMAGED_INSTANCE_HINT
        ) from error


def _create(path: Path, here: str) -> _InstanceFile:
    """Write the file under another name and rename it: a crash leaves no half of it."""
    made, draft = _InstanceFile(secrets.token_hex(16), here), path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(made) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    return made


async def wait_for_copies(runs: Runs, instance: Instance, lease_seconds: float, stop: asyncio.Event) -> bool:
    """Return once no other gateway lives with our id; False: a stop was asked for. One that lives is refused.

    A run with another lock may be of a copy, or of this home before the machine was started anew: so its
    heartbeats are watched until one comes, or until they have stood still for a lease.
    """
    observer, first = RunObserver(lease_seconds, boot_seconds()), dict[str, int]()
    while not stop.is_set():
        with suppress(Unavailable):
            if not (copies := await runs.copies(instance)):
                return True
            _refuse_living(copies, first)
            observer.record([copy.beats for copy in copies], boot_seconds())
            await runs.end_silent(observer.silent(boot_seconds()))
        with suppress(TimeoutError):
            async with asyncio.timeout(lease_seconds / HEARTBEATS_PER_LEASE / 2):
                await stop.wait()
    return False


def _refuse_living(copies: list[CopiedRun], first: dict[str, int]) -> None:
    """Raise if a count of heartbeats has moved since it was first seen."""
    for copy in copies:
        run, count = copy.beats.run, copy.beats.beats
        if run not in first:
            log.warning("instance_elsewhere", run=run, home=copy.home, lease_ms=copy.beats.lease_ms)
        if first.setdefault(run, count) != count:
            raise ConfigurationError(
                texts.recovery.copied_home(copy.home, run), hint=texts.recovery.COPIED_HOME_HINT
            )
