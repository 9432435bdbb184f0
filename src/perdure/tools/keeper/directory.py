"""Reads and writes the records in the directory of a command, and signals the processes that they name.

The keeper and the gateway both use this module; `program.py` says why it loads so little.
"""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False  # as in `typing`, which takes as long to load as all the rest
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable
    from typing import Any

    RecordFields = dict[str, Any]
else:  # the C module beneath `signal`, which itself loads `enum`
    import _signal as signal

RECORD_VERSION = 1  # of the records; a record with a higher version is left alone
SANDBOX_VERSION = 2  # of an order with a sandbox: a keeper of 0.2.0, which knows none, refuses it


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────
# Records are JSON. The module `json` takes longer to load than all the rest of a keeper; its part in C does not.


class _ScannerOptions:
    """The default options that the scanner in C reads from a decoder."""

    strict, parse_float, parse_int, parse_constant = True, float, int, float

    def __getattr__(self, hook: str) -> None: ...


try:
    from _json import encode_basestring_ascii as _quoted
    from _json import make_scanner

    _scan: Callable[[str, int], tuple[Any, int]] = make_scanner(_ScannerOptions())  # type: ignore[arg-type]
except ImportError:  # a Python without the part in C
    from json import JSONDecoder
    from json.encoder import encode_basestring_ascii as _quoted

    _scan = JSONDecoder().scan_once  # type: ignore[attr-defined]


def loads(text: bytes) -> Any:
    """Decode JSON; `ValueError` if the text is not JSON."""
    plain = text.decode().strip()
    try:
        value, end = _scan(plain, 0)
    except StopIteration as error:
        raise ValueError(f"not JSON: {plain[:40]!r}") from error
    if end != len(plain):
        raise ValueError(f"not JSON: {plain[end : end + 40]!r}")
    return value


def dumps(value: object) -> str:
    """Encode a value as JSON, in ASCII."""
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
    """Encode a text as Python decoded it from the system: the inverse of `surrogateescape`."""
    return text.encode("utf-8", "surrogateescape")


def read_bytes(directory_fd: int | None, name: str) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=directory_fd), "rb") as file:
        return file.read()


def replace_record(directory_fd: int, name: str, record: RecordFields, *, durable: bool = True) -> None:
    """Write a record into a directory atomically: readers see the old one or the new one."""
    write_record(directory_fd, f"{name}.part", record, durable=durable)
    os.rename(f"{name}.part", name, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    if durable:
        os.fsync(directory_fd)


def write_record(directory_fd: int, name: str, record: RecordFields, *, durable: bool) -> None:
    """Write a record in place of the old bytes, which may be the disk space that was reserved for it."""
    with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=directory_fd), "wb") as file:
        file.write(dumps(record).encode())
        file.truncate()
        if durable:
            file.flush()
            os.fsync(file.fileno())


def claim_directory(directory_fd: int, by: str) -> bool:
    """Claim a directory durably; False if somebody claimed it first.

    The claim is written under another name and then linked: linking succeeds once, as O_EXCL does, and the claim
    is complete as soon as it exists.
    """
    temporary = f"claim.{os.getpid()}.{time.monotonic_ns()}"
    write_record(
        directory_fd,
        temporary,
        {"version": RECORD_VERSION, "by": by, "at": now_ms(), **process_identity(os.getpid())},
        durable=True,
    )
    try:
        os.link(temporary, "claim", src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    except FileExistsError:
        return False
    finally:
        os.unlink(temporary, dir_fd=directory_fd)
    os.fsync(directory_fd)
    return True


def process_identity(pid: int) -> RecordFields:
    """The fields that distinguish a process from every other one that had or will have its pid."""
    found = process_stat(pid)
    return {"pid": pid, "started": found[2] if found else 0, "boot": boot_id()}


def boot_id() -> str:
    return read_bytes(None, "/proc/sys/kernel/random/boot_id").decode().strip()


def process_stat(pid: int) -> tuple[str, int, int, int] | None:
    """The state, session, start time (ticks since boot) and parent of a process; None if it does not exist."""
    try:
        stat = read_bytes(None, f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[3]), int(fields[19]), int(fields[1])


def is_process_alive(pid: int, started: int) -> bool:
    """Whether this process, and not another with its pid, exists and has not ended."""
    found = process_stat(pid)
    return found is not None and found[2] == started and found[0] not in "ZX"


def all_processes() -> list[tuple[int, tuple[str, int, int, int]]]:
    """Every process of the system, with what `process_stat` says of it."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 reason: pathlib is large
    return [(pid, found) for pid in pids if (found := process_stat(pid))]


def child_processes() -> list[int]:
    """The children of this process, ended ones included: by the kernel's own list, where it has one.

    To look at every process of the system takes milliseconds, in which somebody waits for a result.
    """
    pid = os.getpid()
    try:
        return [int(child) for child in read_bytes(None, f"/proc/{pid}/task/{pid}/children").split()]
    except FileNotFoundError:
        return [child for child, found in all_processes() if found[3] == pid]


def session_processes(session: int) -> list[tuple[int, int]]:
    """The living processes of a session, with their start times."""
    return [(pid, found[2]) for pid, found in all_processes() if found[1] == session and found[0] not in "ZX"]


def descendant_processes(ancestor: int) -> list[tuple[int, int]]:
    """The living processes that a process has started, and those that they have, with their start times."""
    processes = all_processes()
    family, size = {ancestor}, 0
    while len(family) > size:
        size = len(family)
        family |= {pid for pid, found in processes if found[3] in family}
    return [(pid, found[2]) for pid, found in processes if pid in family - {ancestor} and found[0] not in "ZX"]


def signal_processes(processes: list[tuple[int, int]], number: int) -> None:
    """Signal each of these; not by group, because `timeout` and shells make groups of their own."""
    for pid, started in processes:
        try:
            signal_process(pid, started, number)
        except OSError:  # it runs as another user now, by `sudo` for one, or cannot be read
            continue


def signal_process(pid: int, started: int, number: int) -> None:
    """Signal this process if it lives, and never another process that got its pid since."""
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
    """A pidfd of the process that has this pid now; None if there is none, or the kernel gives none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel, or a sandbox: then `os.kill` right after a check
        return None
