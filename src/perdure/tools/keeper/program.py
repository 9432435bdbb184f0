"""A program of its own that owns one command, and outlives whoever started it; see `kept.py`.

In the directory that it is given it runs the command of `order.json`, once: whoever makes `claim` there first
decides, and the keeper does so before it starts anything. What the command says goes to `output`, what it is
told comes from `input`, and how it ended stands in `result.json`, which is written last. SIGTERM stops the
command, SIGUSR1 ends its input.

Each command has a keeper, so it loads little, and of ours only two modules beside it, which load nothing else.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, which would take as long to load as all the rest
if TYPE_CHECKING:
    import signal

    from perdure.tools.keeper.directory import RECORD_VERSION, RecordFields, claim_directory, loads, read_bytes
    from perdure.tools.keeper.process import IGNORED_SIGNALS, STOP_SIGNALS, CommandProcess
else:  # alone, not as a part of the package, whose own start would cost more than ours
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 reason: pathlib is large
    from directory import RECORD_VERSION, claim_directory, loads, read_bytes, signal
    from process import IGNORED_SIGNALS, STOP_SIGNALS, CommandProcess

LAUNCH_DEFAULTS = {
    "timeout": None,
    "cap": 8 << 20,
    "grace": 5.0,
    "shell": "/bin/sh",
    "input": True,
    "umask": 0o022,
    "descriptors": None,
}


def main() -> None:
    """Leave whoever called, and keep the command; tell on standard error why it cannot be started."""
    place = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    heard, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(heard) as answer:
            sys.exit(answer.read() or 0)
    detach({place, tell})
    try:
        order = read_launch_spec(place)
        wake = open_signal_pipe()
        first = claim_directory(place, "keeper")
    except (OSError, ValueError, KeyError) as error:
        os.write(tell, f"{type(error).__name__}: {error}".encode())
        return
    if first:
        CommandProcess(place, order, wake).run(tell)


def read_launch_spec(directory_fd: int) -> RecordFields:
    """What to do, with the usual for whatever an older gateway knew nothing of."""
    order: RecordFields = LAUNCH_DEFAULTS | loads(read_bytes(directory_fd, "order.json"))
    if order["version"] > RECORD_VERSION:
        raise ValueError(f"the order has format {order['version']}, and this keeper knows {RECORD_VERSION}")
    return order


def detach(keep_open: set[int]) -> None:
    """Let go of everything that was inherited: session, directory, files, signals."""
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in IGNORED_SIGNALS else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 reason: pathlib is large
        if descriptor > 2 and descriptor not in keep_open:
            try:
                os.close(descriptor)
            except OSError:  # the one that listed them
                continue
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def open_signal_pipe() -> int:
    """Where the numbers of the signals that we heed can be read, as bytes."""
    wake, ring = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in (*STOP_SIGNALS, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return wake


if __name__ == "__main__":
    main()
