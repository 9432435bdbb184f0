"""Gives a sandbox without a network the only way out: a proxy outside, which listens inside.

The proxy is a process of its own beside bubblewrap, outside of the sandbox. It lives for as long as the sandbox
has processes, whatever becomes of the gateway and of the keeper. A program inside connects to it on the loopback
of the sandbox, where nobody else can listen before it.
"""

from __future__ import annotations

import os
import select
import sys

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    import signal
    from types import ModuleType

    from perdure.tools.keeper.directory import RecordFields, error_reason, loads
else:
    from directory import error_reason, loads, signal

_PROXY_BACKLOG = 64
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_NS_GET_USERNS = 0xB701  # of a namespace: the user namespace that it belongs to
_IP_FREEBIND = 15  # bubblewrap may not have given the loopback its address yet
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE)


def start_proxy(settings: RecordFields) -> list[bytes]:
    """Start a proxy beside this process, which then becomes bubblewrap; return what bubblewrap is to be told.

    Bubblewrap tells the proxy of the sandbox that it has made, and begins the command when the proxy listens.
    """
    sandbox_told, tells_sandbox = os.pipe()
    command_held, releases_command = os.pipe()
    if os.fork():
        for descriptor in (sandbox_told, releases_command):
            os.close(descriptor)
        for descriptor in (tells_sandbox, command_held):
            os.set_inheritable(descriptor, True)
        return [b"--info-fd", b"%d" % tells_sandbox, b"--block-fd", b"%d" % command_held]
    try:
        _detach({sandbox_told, releases_command})
        _run(settings, sandbox_told, releases_command)
    finally:
        os._exit(0)


def _detach(keep_open: set[int]) -> None:
    """Leave the command's session, signals and descriptors; its output stays for a word about a failure."""
    os.setsid()
    os.chdir("/")
    signal.set_wakeup_fd(-1)
    for number in _IGNORED:  # it ends with the sandbox, and with nothing else
        signal.signal(number, signal.SIG_IGN)
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 reason: pathlib is large
        if descriptor not in keep_open | {2}:
            try:
                os.close(descriptor)
            except OSError:  # the descriptor of the listing itself
                continue
    for standard in (0, 1):
        os.dup2(os.open(os.devnull, os.O_RDWR), standard)


def _run(settings: RecordFields, sandbox_told: int, releases_command: int) -> None:
    """Listen inside, let the command begin, and serve; a sandbox in which nobody could listen is ended."""
    with os.fdopen(sandbox_told, "rb") as told:
        if not (sandbox := told.read()):
            return  # bubblewrap has failed, and says why
    pid = loads(sandbox)["child-pid"]
    try:
        handle = os.pidfd_open(pid)
        listener = _listen_inside(pid, handle, settings["port"])
    except (AttributeError, OSError) as error:
        os.write(2, settings["sentences"]["no_listener"].format(problem=error_reason(error)).encode())
        os.kill(pid, signal.SIGKILL)
        return
    os.dup2(0, 2)
    os.write(releases_command, b"x")
    os.close(releases_command)
    _serve(settings, listener, handle)


def _serve(settings: RecordFields, listener: int, handle: int) -> None:
    """Wait for the first connection or for the end of the sandbox: most commands never connect."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    poll.register(handle, select.POLLIN)
    if handle in [descriptor for descriptor, _ in poll.poll()]:
        return
    import socket

    proxy = _load_proxy()
    internet = proxy.PublicInternet(settings["ports"])
    proxy.Proxy(internet, settings["sentences"]).serve(socket.socket(fileno=listener), handle)


def _load_proxy() -> ModuleType:
    if TYPE_CHECKING:
        from perdure.tools.keeper import proxy
    else:
        import proxy
    return proxy


# ── inside ──────────────────────────────────────────────────────────────────────────────────────────────────


def _listen_inside(pid: int, handle: int, port: int) -> int:
    """A socket that listens on the loopback of the sandbox: a socket belongs where it was made.

    So a helper enters the network of the sandbox, and hands the socket out. The way back would need root.
    """
    import _socket

    ours, theirs = _socket.socketpair()
    helper = os.fork()
    if not helper:
        try:
            _enter_network(pid, handle)
            listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
            listener.setsockopt(_socket.IPPROTO_IP, _IP_FREEBIND, 1)
            listener.bind(("127.0.0.1", port))
            listener.listen(_PROXY_BACKLOG)
            descriptor = listener.fileno().to_bytes(4, sys.byteorder)
            theirs.sendmsg([b"0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptor)])
        except OSError as error:
            theirs.send(b"%d" % (error.errno or 0))
        finally:
            os._exit(0)
    theirs.close()
    said, control, *_ = ours.recvmsg(16, _socket.CMSG_SPACE(4))
    os.waitpid(helper, 0)
    ours.close()
    if not control:
        raise OSError(int(said or 0), os.strerror(int(said or 0)))
    return int.from_bytes(control[0][2], sys.byteorder)


def _enter_network(pid: int, handle: int) -> None:
    """Move this process to the network of the sandbox, by way of the user namespace that this one belongs to."""
    import ctypes
    import fcntl

    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ours = os.stat("/proc/self/ns/net")  # noqa: PTH116 reason: pathlib is large
    if poll.poll(0) or os.fstat(network).st_ino == ours.st_ino:  # it has ended, and its pid may be another's
        raise ProcessLookupError(3, os.strerror(3))
    users = fcntl.ioctl(network, _NS_GET_USERNS)
    libc = ctypes.CDLL(None, use_errno=True)
    for namespace, kind in ((users, _CLONE_NEWUSER), (network, _CLONE_NEWNET)):
        if libc.setns(namespace, kind) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
