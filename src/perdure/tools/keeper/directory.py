"""The place of a kept command: the records in its directory, and the processes that they name.

The keeper and the gateway both use this; see `program.py` for why it loads so little.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as in `typing`, which would take as long to load as all the rest
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any

    RecordFields = dict[str, Any]
else:  # what `signal` is made of: that itself loads `enum` and all that it needs
    import _signal as signal

RECORD_VERSION = 1  # of the records; who finds a higher one does not touch it


# ── notation ────────────────────────────────────────────────────────────────────────────────────────────────
# Records are JSON. The library for that takes longer to load than all the rest of a keeper, but the part of it
# that is written in C does not.


class _ScannerOptions:
    """What the scanner of the library asks a decoder for: nothing out of the ordinary."""

    strict, parse_float, parse_int, parse_constant = True, float, int, float

    def __getattr__(self, hook: str) -> None: ...


try:
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner

    _scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_ScannerOptions())  # type: ignore[arg-type]
except ImportError:  # a Python without that part
    from json import JSONDecoder
    from json.encoder import encode_basestring_ascii as _quoted

    _scan = JSONDecoder().scan_once  # type: ignore[attr-defined]


def loads(text: bytes) -> Any:
    """The value that some JSON stands for; `ValueError` if it is none."""
    plain = text.decode().strip()
    try:
        value, end = _scan(plain, 0)
    except StopIteration as error:
        raise ValueError(f"not JSON: {plain[:40]!r}") from error
    if end != len(plain):
        raise ValueError(f"not JSON: {plain[end : end + 40]!r}")
    return value


def dumps(value: object) -> str:
    """A value as JSON, in letters that every encoding has."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(name)}: {dumps(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(dumps, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value).replace("inf", "Infinity")


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def error_reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def fs_encode(text: str) -> bytes:
    """The bytes of a text, as Python takes those of the system for text."""
    return text.encode("utf-8", "surrogateescape")


def read_bytes(directory_fd: int | None, name: str) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=directory_fd), "rb") as file:
        return file.read()


def replace_record(directory_fd: int, name: str, record: RecordFields, *, durable: bool = True) -> None:
    """Put a record into a place, as a whole or not at all."""
    write_record(directory_fd, f"{name}.part", record, durable=durable)
    os.rename(f"{name}.part", name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    if durable:
        os.fsync(directory_fd)


def write_record(directory_fd: int, name: str, record: RecordFields, *, durable: bool) -> None:
    """Write a record; over what is there, because that may hold the room on the disk for it."""
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory_fd), "wb") as file:
        file.write(dumps(record).encode())
        file.truncate()
        if durable:
            file.flush()
            os.fsync(file.fileno())


def claim_directory(directory_fd: int, by: str) -> bool:
    """Claim a place; False if somebody was first.

    The claim is written under another name and then linked, which succeeds once as O_EXCL does; so it is
    complete as soon as it is there.
    """
    own = f"claim.{os.getpid()}.{time.monotonic_ns()}"
    write_record(
        directory_fd,
        own,
        {"version": RECORD_VERSION, "by": by, "at": now_ms(), **process_identity(os.getpid())},
        durable=True,
    )
    try:
        os.link(own, "claim", src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    except FileExistsError:
        return False
    finally:
        os.unlink(own, dir_fd=directory_fd)
    os.fsync(directory_fd)
    return True


def process_identity(pid: int) -> RecordFields:
    """What tells a process from every other one that had or will have its number."""
    found = process_stat(pid)
    return {"pid": pid, "started": found[2] if found else 0, "boot": boot_id()}


def boot_id() -> str:
    return read_bytes(None, "/proc/sys/kernel/random/boot_id").decode().strip()


def process_stat(pid: int) -> tuple[str, int, int] | None:
    """The state, the session and the start time of a process, in ticks since the boot; None if there is none."""
    try:
        stat = read_bytes(None, f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[3]), int(fields[19])


def is_process_alive(pid: int, started: int) -> bool:
    """Whether this very process is there and has not ended."""
    found = process_stat(pid)
    return found is not None and found[2] == started and found[0] not in "ZX"


def session_processes(session: int) -> list[tuple[int, int]]:
    """The living processes of a session, with their start times."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 reason: pathlib is large
    all_of_them = [(pid, found) for pid in pids if (found := process_stat(pid))]
    return [(pid, found[2]) for pid, found in all_of_them if found[1] == session and found[0] not in "ZX"]


def signal_session(session: int, number: int) -> None:
    """Signal every process of a session; not by group, because `timeout` and shells make groups of their own."""
    try:
        found = session_processes(session)
    except OSError:  # the system does not let us look now; a keeper that kills does so again
        return
    for pid, started in found:
        try:
            signal_process(pid, started, number)
        except OSError:  # it has become somebody else, by `sudo` for one, or cannot be looked at now
            continue


def signal_process(pid: int, started: int, number: int) -> None:
    """Signal this very process, if it lives, and never one that has got its number since."""
    handle = _handle(pid)
    try:
        if is_process_alive(pid, started) and handle is None:
            os.kill(pid, number)
        elif is_process_alive(pid, started) and handle is not None:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return
    finally:
        if handle is not None:
            os.close(handle)


def _handle(pid: int) -> int | None:
    """A handle of the process that has this number now; None if there is none, or no handle to be had."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel, or a sandbox; then we look, and hurry
        return None
