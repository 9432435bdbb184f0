"""Attempts of a command to leave its sandbox: `python escape_attempts.py NAME`, with the facts in `facts.json`.

Each says "reached" or "refused", and what it saw. Every attempt is harmless if nothing refuses it: system files
are opened and never written, system calls get arguments with which they change nothing, and signals go to a
process that the test started itself. Keep it so: one of the tests runs them all without a sandbox.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

FACTS: dict[str, Any] = json.loads(Path("facts.json").read_text()) if Path("facts.json").exists() else {}
LIBC = ctypes.CDLL(None, use_errno=True)
CALLS = {  # on x86_64 and on aarch64
    "ptrace": (101, 117),
    "mount": (165, 40),
    "keyctl": (250, 219),
    "io_uring_setup": (425, 425),
    "unshare": (272, 97),
    "clone3": (435, 435),
    "process_vm_readv": (310, 270),
}
ATTEMPTS: dict[str, Callable[[], object]] = {}


def attempt(function: Callable[[], object]) -> Callable[[], object]:
    ATTEMPTS[function.__name__] = function
    return function


def call(name: str, *arguments: Any) -> int:
    number = CALLS[name][os.uname().machine == "aarch64"]
    result: int = LIBC.syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def read(path: str | Path) -> str:
    return Path(path).read_bytes().decode(errors="replace")


# ── what must not be there ──────────────────────────────────────────────────────────────────────────────────


@attempt
def token() -> object:
    return read(f"{FACTS['home']}/token")


@attempt
def configuration() -> object:
    return read(f"{FACTS['home']}/config.toml")


@attempt
def database() -> object:
    return read(f"{FACTS['home']}/perdure.db")


@attempt
def keeper_folder_of_another_command() -> object:
    return read(f"{FACTS['home']}/keepers/other/output")


@attempt
def workspace_of_another_chat() -> object:
    return read(FACTS["other"])


@attempt
def link_to_the_token() -> object:
    with suppress(FileExistsError):
        Path("link").symlink_to(f"{FACTS['home']}/token")
    return read("link")


@attempt
def hard_link_to_the_token() -> object:
    Path("hard").hardlink_to(f"{FACTS['home']}/token")
    return read("hard")


def _look_into_processes(name: str) -> list[str]:
    """What can be read of every process but our own; each has its own secret."""
    found = []
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if int(folder.name) != os.getpid():
                found.append(read(folder / name))
    return found


@attempt
def environment_of_the_gateway() -> object:
    found = [each for each in _look_into_processes("environ") if FACTS["secret"] in each]
    return found[0] if found else _refuse("no process shows the secret")


@attempt
def root_folder_of_the_gateway() -> object:
    found = _look_into_processes(f"root{FACTS['home']}/token")
    return found[0] if found else _refuse("no process leads to the token")


@attempt
def path_socket() -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(FACTS["path_socket"])


# ── what must be refused ────────────────────────────────────────────────────────────────────────────────────


@attempt
def abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + FACTS["abstract_socket"])


@attempt
def port_of_the_gateway() -> None:
    socket.create_connection(("127.0.0.1", FACTS["port"]), 5).close()


@attempt
def port_by_mptcp() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as client:
        client.connect(("127.0.0.1", FACTS["port"]))


@attempt
def port_by_fast_open() -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as client:
        return client.sendto(b"x", 0x20000000, ("127.0.0.1", FACTS["port"]))


@attempt
def port_of_ones_own() -> object:
    with socket.create_server(("127.0.0.1", FACTS["free_port"])) as server:
        return server


@attempt
def signal() -> None:
    os.kill(FACTS["victim"], 0)


@attempt
def tracing() -> object:
    return call("ptrace", 0x4206, FACTS["victim"], 0, 0)  # PTRACE_SEIZE, which does not halt it


@attempt
def memory_of_another_process() -> object:
    with Path(f"/proc/{FACTS['victim']}/mem").open("rb"):
        return "open"


@attempt
def remount_of_etc() -> object:
    call("mount", None, b"/etc", None, 0x1020, None)  # MS_BIND and MS_REMOUNT: /etc is no mount of the host
    return "mounted"


@attempt
def writing_to_the_system() -> None:
    os.close(os.open("/etc/passwd", os.O_WRONLY))  # opened, and nothing is written


@attempt
def core_pattern() -> None:
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))  # opened, and nothing is written


@attempt
def nested_user_namespace() -> object:
    return call("unshare", 0x10000000)


@attempt
def clone3() -> object:
    try:
        return call("clone3", None, 0)
    except OSError as error:
        return _refuse(str(error)) if error.errno == 38 else str(error)  # without a filter: bad arguments


@attempt
def keys() -> object:
    return call("keyctl", 0, -3, 1)  # the id of the session's keyring


@attempt
def typing_into_a_terminal() -> object:
    import fcntl

    try:
        return fcntl.ioctl(0, 0x5412, b"\0")  # standard input is no terminal, so nothing would be typed
    except OSError as error:
        return _refuse(str(error)) if error.errno == 1 else str(error)


@attempt
def io_uring() -> object:
    try:
        return call("io_uring_setup", 0, None)
    except OSError as error:
        return _refuse(str(error)) if error.errno == 38 else str(error)  # without a filter: bad arguments


@attempt
def device() -> object:
    os.mknod("device", 0o020600, os.makedev(1, 3))  # another /dev/null
    return "made"


@attempt
def set_uid_file() -> None:
    Path("program").touch()
    Path("program").chmod(0o4755)


# ── what the proxy of the network `public` must refuse ──────────────────────────────────────────────────────

PROXY_ATTEMPTS = {  # no proxy connects to any of these, so that nothing is sent to them
    "loopback_by_tunnel": "CONNECT 127.0.0.1:443",
    "loopback_by_name": "GET http://localhost/",
    "loopback_by_number": "GET http://2130706433/",
    "loopback_of_ipv6": "GET http://[::1]/",
    "loopback_in_ipv6": "CONNECT [::ffff:127.0.0.1]:443",
    "any_address": "CONNECT 0.0.0.0:80",
    "cloud_metadata": "GET http://169.254.169.254/latest/meta-data/",
    "private_network": "CONNECT 10.0.0.1:22",
    "multicast": "CONNECT 224.0.0.1:80",
    "machine_itself": "CONNECT {own_address}:443",
    "port_of_the_gateway": "CONNECT 127.0.0.1:{port}",
}


def ask_proxy(name: str) -> object:
    with socket.create_connection(("127.0.0.1", 3128), 10) as client:
        client.sendall(f"{PROXY_ATTEMPTS[name].format(**FACTS)} HTTP/1.1\r\nHost: test\r\n\r\n".encode())
        said = client.makefile("rb").read().decode()
    return _refuse(said) if said.startswith("HTTP/1.1 403 ") else said


class Refused(Exception):
    """An attempt came to nothing."""


def _refuse(why: str) -> object:
    raise Refused(why)


if __name__ == "__main__":
    try:
        seen = ask_proxy(sys.argv[1]) if sys.argv[2:] == ["proxy"] else ATTEMPTS[sys.argv[1]]()
    except (OSError, Refused) as error:
        sys.stdout.write(f"refused: {error}")
    else:
        sys.stdout.write(f"reached: {seen}")
