"""The keeper program: owns one command, and outlives the gateway that started it.

It runs the command of `order.json` in the directory that it is given, once: the process that makes `claim` there
first decides, and the keeper does so before it starts anything. It stores the command's output in `output`, passes
on `input`, and writes how the command ended to `result.json`, last of all. SIGTERM stops the command, SIGUSR1
closes its input.

Each command has a keeper of its own. So the program loads little: two modules beside it, which load nothing else,
and a third one for an order with a sandbox.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `typing`, which takes as long to load as all the rest
if TYPE_CHECKING:
    import signal

    from perdure.tools.keeper.directory import SANDBOX_VERSION, RecordFields, claim_directory, loads, read_bytes
    from perdure.tools.keeper.process import IGNORED_SIGNALS, STOP_SIGNALS, CommandProcess, load_confinement
else:  # by bare name: importing the package would take longer than the whole program
    sys.path.append(os.path.dirname(__file__))  # noqa: PTH120 reason: pathlib is large
    from directory import SANDBOX_VERSION, claim_directory, loads, read_bytes, signal
    from process import IGNORED_SIGNALS, STOP_SIGNALS, CommandProcess, load_confinement

LAUNCH_DEFAULTS = {
    "timeout": None,
    "cap": 8 << 20,
    "grace": 5.0,
    "shell": "/bin/sh",
    "input": True,
    "umask": 0o022,
    "descriptors": None,
    "sandbox": None,
}


def main() -> None:
    """Detach from the caller and run the command; write to standard error why it cannot be started."""
    directory_fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    failure_reader, failure_fd = os.pipe()
    if os.fork():
        os.close(failure_fd)
        with os.fdopen(failure_reader) as failure:
            sys.exit(failure.read() or 0)
    detach({directory_fd, failure_fd})
    try:
        spec = read_launch_spec(directory_fd)
        if spec["sandbox"] is not None:
            load_confinement().become_subreaper()
        signal_fd = open_signal_pipe()
        claimed = claim_directory(directory_fd, "keeper")
    except (OSError, ValueError, KeyError) as error:
        os.write(failure_fd, f"{type(error).__name__}: {error}".encode())
        return
    if claimed:
        CommandProcess(directory_fd, spec, signal_fd).run(failure_fd)


def read_launch_spec(directory_fd: int) -> RecordFields:
    """Read `order.json`, with defaults for the fields that an older gateway did not know."""
    spec: RecordFields = LAUNCH_DEFAULTS | loads(read_bytes(directory_fd, "order.json"))
    if spec["version"] > SANDBOX_VERSION:
        raise ValueError(f"the order has format {spec['version']}, and this keeper knows {SANDBOX_VERSION}")
    return spec


def detach(keep_open: set[int]) -> None:
    """Release everything that was inherited: session, working directory, files, signals."""
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
            except OSError:  # the descriptor of the listing itself
                continue
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def open_signal_pipe() -> int:
    """Open a pipe from which the numbers of received signals can be read, as bytes."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (*STOP_SIGNALS, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reader


if __name__ == "__main__":
    main()
