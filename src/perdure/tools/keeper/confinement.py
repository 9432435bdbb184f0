"""Confines a process as an order says, and turns it into a command: limits, Landlock, seccomp, bubblewrap.

The keeper loads it for an order with a sandbox. The gateway runs it as a program for other programs that it starts
itself, and to try the sandbox at its start. What is forbidden is decided by the gateway (`tools/sandbox`): this
module only does what the record says, all of it or nothing, and loads little, as `program.py` explains.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    import signal
    from collections.abc import Iterable
    from types import ModuleType

    from perdure.tools.keeper.directory import RecordFields, fs_encode, loads, read_bytes
else:
    if __name__ == "__main__":
        sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 reason: pathlib is large
    from directory import fs_encode, loads, read_bytes, signal

_PR_SET_SECCOMP, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 22, 24, 36, 38
_SECCOMP_MODE_FILTER = 2
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITY_VERSION = 0x20080522
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # of Landlock, on every architecture
_PATH_RULE, _PORT_RULE = 1, 2
_O_PATH = 0o10000000

_libc = ctypes.CDLL(None, use_errno=True)


def become_subreaper() -> None:
    """Make this process the parent of every process that the command leaves behind."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def exec_confined(
    sandbox: RecordFields, line: list[bytes], env: dict[bytes, bytes], status_fd: int | None
) -> None:
    """Confine this process and turn it into a command; `OSError` if any part of the sandbox cannot be had."""
    if sandbox["layer"] == "bwrap":
        line = [*_bubblewrap(sandbox, status_fd), b"--", *line]
    if sandbox["layer"] != "off":
        if sandbox.get("control_group") is not None:
            _join_control_group(sandbox["control_group"])
        _limit_resources(sandbox["limits"])
        if sandbox["layer"] == "landlock" and os.geteuid() == 0:
            _drop_capabilities()
        _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        _restrict_by_landlock(sandbox["ruleset"])
        for program in sandbox["filters"]:
            _filter_system_calls(bytes.fromhex(program))
    os.execve(line[0], line, env)  # noqa: S606 reason: it is the command


def _bubblewrap(sandbox: RecordFields, status_fd: int | None) -> list[bytes]:
    """The program and its arguments, with the filter that it applies to the command at last."""
    arguments = [fs_encode(word) for word in sandbox["prefix"]]
    arguments += [b"--seccomp", b"%d" % _open_pipe_with(bytes.fromhex(sandbox["inner_filter"]))]
    if sandbox.get("proxy") is not None:
        arguments += _load_proxied_network().start_proxy(sandbox["proxy"])
    if status_fd is not None:
        os.set_inheritable(status_fd, True)
        arguments += [b"--json-status-fd", b"%d" % status_fd]
    return arguments


def _load_proxied_network() -> ModuleType:
    """The module that starts a proxy; only a sandbox with the network `public` needs it."""
    if TYPE_CHECKING:
        from perdure.tools.keeper import proxied_network
    else:
        import proxied_network
    return proxied_network


def make_control_group(sandbox: RecordFields) -> None:
    """Make the group of a command with its limits, if it is to have one, and note its path in the record."""
    wanted = sandbox.get("control_group")
    if wanted is None:
        return
    wanted["path"] = f"{wanted['prefix']}{os.getpid()}-{time.monotonic_ns()}"
    os.mkdir(wanted["path"])  # noqa: PTH102 reason: pathlib is large
    for name, limit in wanted["limits"].items():
        _write(f"{wanted['path']}/{name}", b"%d" % limit)


def _join_control_group(group: RecordFields) -> None:
    _write(f"{group['path']}/cgroup.procs", b"%d" % os.getpid())


def limit_problem(sandbox: RecordFields) -> list[str] | None:
    """Which limit of its group a command has met, as the problem of its result; None if it has met none."""
    group = sandbox.get("control_group")
    if group is None:
        return None
    if _events(f"{group['path']}/memory.events").get(b"oom_kill", 0):
        return ["memory", str(group["limits"]["memory.max"] // 1_000_000), ""]
    if _events(f"{group['path']}/pids.events").get(b"max", 0):
        return ["processes", str(group["limits"]["pids.max"]), ""]
    return None


def remove_control_group(sandbox: RecordFields) -> None:
    """Remove the group of a command. What the command leaves running keeps it, until the next gateway looks."""
    group = sandbox.get("control_group")
    if group is not None:
        try:
            os.rmdir(group["path"])  # noqa: PTH106 reason: pathlib is large
        except OSError:
            return


def _events(path: str) -> dict[bytes, int]:
    try:
        lines = [line.split() for line in read_bytes(None, path).splitlines()]
    except OSError:
        return {}
    return {name: int(count) for name, count in lines}


def _write(path: str, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _limit_resources(limits: RecordFields) -> None:
    """Set limits by the name that the kernel gives them, such as `FSIZE`; never above the hard limit."""
    import resource

    for name, wanted in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(kind)
        value = wanted + _tasks_of_this_user() if name == "NPROC" else wanted  # the kernel counts them all
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _tasks_of_this_user() -> int:
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):  # noqa: PTH208 reason: pathlib is large
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == user:  # noqa: PTH116 reason: pathlib is large
                count += os.stat(f"/proc/{name}/task").st_nlink - 2  # noqa: PTH116 reason: pathlib is large
        except OSError:  # it has ended
            continue
    return count


def _drop_capabilities() -> None:
    """Give up the power of root for good; what belongs to root can still be used as its owner."""
    for number in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # the kernel knows no more of them
    header = ctypes.create_string_buffer(_packed(4, _CAPABILITY_VERSION, 0))
    _system_call(_CAPSET[os.uname().machine], header, ctypes.create_string_buffer(24))


def _restrict_by_landlock(ruleset: RecordFields | None) -> None:
    if ruleset is None:
        return
    handled = _packed(8, *ruleset["handled"])
    ruleset_fd = _system_call(_CREATE_RULESET, ctypes.create_string_buffer(handled), len(handled), 0)
    try:
        for path, access in ruleset["paths"]:
            _allow_path(ruleset_fd, path, access)
        for port, access in ruleset["ports"]:
            rule = ctypes.create_string_buffer(_packed(8, access, port))
            _system_call(_ADD_RULE, ruleset_fd, _PORT_RULE, rule, 0)
        _system_call(_RESTRICT_SELF, ruleset_fd, 0)
    finally:
        os.close(ruleset_fd)


def _allow_path(ruleset_fd: int, path: str, access: int) -> None:
    folder = os.open(fs_encode(path), _O_PATH | os.O_CLOEXEC)
    try:
        rule = ctypes.create_string_buffer(_packed(8, access) + folder.to_bytes(4, sys.byteorder))
        _system_call(_ADD_RULE, ruleset_fd, _PATH_RULE, rule, 0)
    finally:
        os.close(folder)


def _filter_system_calls(program: bytes) -> None:
    instructions = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(instructions)
    header = (len(program) // 8).to_bytes(8, sys.byteorder) + address.to_bytes(8, sys.byteorder)
    _call("prctl", _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.create_string_buffer(header), 0, 0)


def _open_pipe_with(content: bytes) -> int:
    """A descriptor from which bubblewrap reads the content; a pipe holds it all."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    os.set_inheritable(reader, True)
    return reader


def _packed(size: int, *numbers: int) -> bytes:
    return b"".join(number.to_bytes(size, sys.byteorder) for number in numbers)


def _call(name: str, *arguments: object) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        _raise_errno()


def _system_call(*arguments: object) -> int:
    result: int = _libc.syscall(*arguments)
    return result if result >= 0 else _raise_errno()


def _raise_errno() -> int:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def main(arguments: Iterable[str]) -> None:
    """Run a program confined: the descriptor of the record, then the program by its path and its arguments."""
    descriptor, *line = arguments
    sandbox = loads(read_bytes(None, f"/proc/self/fd/{descriptor}"))
    os.close(int(descriptor))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and that would outlive exec
        signal.signal(number, signal.SIG_DFL)
    if "descriptors" in sandbox:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (sandbox["descriptors"], hard))
    try:
        make_control_group(sandbox)
        exec_confined(sandbox, [os.fsencode(word) for word in line], dict(os.environb), None)
    except OSError as error:
        sys.exit(f"{error.strerror}: {line[0]}" if error.filename else f"{error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
