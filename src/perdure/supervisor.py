"""The supervisor of `perdure up`: starts the gateway, forwards signals, and restarts it whenever it dies.

The supervisor decides by the exit code alone and knows nothing else of the gateway. Two pipes connect them:

- **Standard output** goes through us, because only one line may ever come out of it. Were it shared, we could
  not tell whether a gateway that died had printed its line. So we pass on the first complete line and send any
  other to standard error. Later gateways print none, by `PERDURE_QUIET_READY=1`: their ready line would put the
  login token among the logs.
- **The lifeline** is a pipe that nobody writes to. We alone hold its write end, so the gateway reads end of file
  exactly when we are gone, however we ended, and can stop in good order rather than run on unsupervised.

`PERDURE_LAUNCH` gives every gateway a name for its start and reports how those before it died: a process that was
killed could not record that itself.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import select
import signal
import stat
import subprocess
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from perdure.core import texts
from perdure.core.backoff import backoff_delay
from perdure.core.exit_report import ExitReport, GatewayLaunch, decode_launch, encode_launch
from perdure.store.ids import wall_clock

EXIT_DONE, EXIT_RESTART, EXIT_REFUSED = 0, 75, 78
LIFELINE_VARIABLE, QUIET_READY_VARIABLE, LAUNCH_VARIABLE = (
    "PERDURE_LIFELINE",
    "PERDURE_QUIET_READY",
    "PERDURE_LAUNCH",
)
MAX_EXIT_REPORTS = 20  # passed to a gateway: several before it may have died before they could record any
STDOUT, STDERR = 1, 2
PIPE_BYTES = 65536  # the capacity of a pipe: one read of this size empties it

# A terminal that closes asks for the same planned stop as SIGTERM.
FORWARDED_SIGNALS: dict[int, int] = {
    signal.SIGTERM: signal.SIGTERM,
    signal.SIGINT: signal.SIGINT,
    signal.SIGHUP: signal.SIGTERM,
}


class RestartBackoff(NamedTuple):
    """How long to wait, in seconds, before a gateway that died is started again."""

    first_seconds: float = 0.5
    max_seconds: float = 30.0
    healthy_seconds: float = 60.0  # a gateway that lived this long died of something new

    def next_failures(self, failures: int, lived: float) -> int:
        """The number of quick deaths in a row, now that one more gateway died after `lived` seconds."""
        return 1 if lived >= self.healthy_seconds else failures + 1

    def delay(self, failures: int) -> float:
        """The delay in seconds: none after the first death, then `first_seconds`, doubled up to `max_seconds`."""
        if failures < 2:
            return 0.0
        return backoff_delay(failures - 1, first=self.first_seconds, longest=self.max_seconds)


DEFAULT_BACKOFF = RestartBackoff()


class GatewayExit(NamedTuple):
    """How one gateway ended; a code below zero is the signal that killed it."""

    code: int
    lifetime_seconds: float
    description: str


def print_to_stderr(sentence: str) -> None:
    """Write one line to standard error."""
    _write(STDERR, f"{sentence}\n".encode())


def supervise(command: Sequence[str], *, schedule: RestartBackoff = DEFAULT_BACKOFF) -> int:
    """Keep `command` running until it is done, refuses to start or is stopped; return our exit code.

    Must be the last call of its process, in the main thread: it installs signal handlers and keeps them, so that
    a late signal does not turn a clean exit into a killed one.
    """
    supervisor = _Supervisor(command, schedule)
    try:
        return supervisor.run()
    finally:
        supervisor.close()


def take_lifeline() -> int | None:
    """The descriptor that reaches its end of file when our supervisor is gone; None if nobody supervises us.

    Works once: the variable is removed and the descriptor is not inherited, so that no child process takes the
    lifeline for its own.
    """
    try:
        fd = int(os.environ.pop(LIFELINE_VARIABLE, ""))
        mode, access = os.fstat(fd).st_mode, fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE
    except (ValueError, OverflowError, OSError):
        return None
    # The variable may be inherited from an outer supervisor, without its pipe, and the number mean another file.
    if fd <= STDERR or not stat.S_ISFIFO(mode) or access != os.O_RDONLY:
        return None
    os.set_inheritable(fd, False)
    return fd


def take_launch() -> GatewayLaunch | None:
    """The launch that our supervisor describes; None if there is no supervisor.

    Works once, as `take_lifeline` does: no child process takes the name of our start for its own.
    """
    return decode_launch(os.environ.pop(LAUNCH_VARIABLE, ""))


class _Supervisor:
    """Runs one gateway at a time, and waits for a signal, a line of output, or the time to restart."""

    def __init__(self, command: Sequence[str], schedule: RestartBackoff) -> None:
        self._command, self._schedule = list(command), schedule
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = self._ready_line_passed = False
        self._partial_line = b""
        self._launch_name = ""  # the name of the newest start
        self._exit_reports: deque[ExitReport] = deque(maxlen=MAX_EXIT_REPORTS)
        # One pipe for the output of every gateway: a process that outlives its gateway never finds it closed.
        self._output, self._child_stdout = os.pipe()
        self._lifeline_reader, self._lifeline_writer = os.pipe()
        self._signals, self._wakeup = os.pipe()
        os.set_blocking(self._output, False)
        self._install_signal_handlers()

    def _install_signal_handlers(self) -> None:
        # Signals become bytes in a pipe until we read them: none is lost between two calls. Blocking them instead
        # would block them in the gateway too, which inherits the mask.
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        for number in (*FORWARDED_SIGNALS, signal.SIGCHLD):
            if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
                continue  # started under nohup
            signal.signal(number, lambda *_: None)

    def close(self) -> None:
        """Close the descriptors."""
        signal.set_wakeup_fd(-1)
        for fd in (
            self._output,
            self._child_stdout,
            self._lifeline_reader,
            self._lifeline_writer,
            self._signals,
            self._wakeup,
        ):
            os.close(fd)

    def run(self) -> int:
        """Start gateways one after the other until one ends for good; return our exit code."""
        deaths = 0
        while not self._stopping:
            ending = self._run_gateway()
            if self._stopping:
                return self._exit_code_after_stop(ending)
            if ending.code == EXIT_DONE:
                return EXIT_DONE
            if ending.code == EXIT_REFUSED:
                print_to_stderr(texts.cli.stays_down(ending.description))
                return EXIT_REFUSED
            deaths = (
                0 if ending.code == EXIT_RESTART else self._schedule.next_failures(deaths, ending.lifetime_seconds)
            )
            delay = self._schedule.delay(deaths)
            print_to_stderr(texts.cli.starts_again(ending.description, deaths, delay))
            self._pause(delay)
        return EXIT_DONE

    def _exit_code_after_stop(self, ending: GatewayExit) -> int:
        """The exit code after a stop that we forwarded."""
        # With 75, a restart was under way when the stop came. A gateway that the forwarded signal killed had not
        # installed its handlers yet, so it had begun nothing.
        if ending.code in (EXIT_DONE, EXIT_RESTART, -signal.SIGTERM, -signal.SIGINT):
            return EXIT_DONE
        print_to_stderr(texts.cli.ended_while_stopping(ending.description))
        return ending.code if ending.code > 0 else 128 - ending.code

    def _run_gateway(self) -> GatewayExit:
        """Run one gateway from its start to its end."""
        begun = time.monotonic()
        try:
            self._child = child = self._start()
        except OSError as error:
            # This may be temporary: an upgrade under way, or no memory left.
            return GatewayExit(os.EX_OSERR, 0.0, texts.cli.could_not_start(error))
        while child.returncode is None:
            self._wait_for_events(None)
        self._child = None
        self._relay()
        self._flush()
        lived = time.monotonic() - begun
        return GatewayExit(child.returncode, lived, _describe_exit(child.returncode, lived))

    def _start(self) -> subprocess.Popen[bytes]:
        # In a session of its own, so that a signal to our whole process group, such as Ctrl-C, reaches the gateway
        # once, from us. Twice would mean "end the drain at once".
        quiet = {QUIET_READY_VARIABLE: "1"} if self._ready_line_passed else {}
        self._launch_name = secrets.token_hex(8)
        launch = encode_launch(GatewayLaunch(self._launch_name, tuple(self._exit_reports)))
        return subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=self._child_stdout,
            pass_fds=(self._lifeline_reader,),
            env={**os.environ, **quiet, LIFELINE_VARIABLE: str(self._lifeline_reader), LAUNCH_VARIABLE: launch},
            start_new_session=True,
        )

    def _pause(self, delay: float) -> None:
        """Wait before the next start; a stop ends the wait."""
        until = time.monotonic() + delay
        self._wait_for_events(0)
        while not self._stopping and (left := until - time.monotonic()) > 0:
            self._wait_for_events(left)

    def _wait_for_events(self, timeout: float | None) -> None:
        """Wait at most `timeout` seconds for signals or output, and handle them."""
        ready, _, _ = select.select([self._signals, self._output], [], [], timeout)
        if self._output in ready:
            self._relay()
        if self._signals in ready:
            for number in os.read(self._signals, 512):
                if number == signal.SIGCHLD:
                    self._reap()
                elif number in FORWARDED_SIGNALS:
                    self._forward_signal(FORWARDED_SIGNALS[number])

    def _forward_signal(self, number: int) -> None:
        """Stop: forward the signal to the gateway."""
        self._stopping = True
        if self._child and self._child.returncode is None:  # not reaped yet, so the id is still its own
            os.kill(self._child.pid, number)

    def _reap(self) -> None:
        """Reap every ended child: as process 1 of a container we inherit the gateway's orphans too."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if self._child and self._child.pid == ended[0]:
                    self._child.returncode = os.waitstatus_to_exitcode(ended[1])
                    self._exit_reports.append(ExitReport(self._launch_name, wall_clock(), self._child.returncode))

    def _relay(self) -> None:
        """Pass on the complete lines: the first one ever to standard output, all others to standard error."""
        with suppress(BlockingIOError):
            *lines, self._partial_line = (self._partial_line + os.read(self._output, PIPE_BYTES)).split(b"\n")
            for line in lines:
                _write(STDERR if self._ready_line_passed else STDOUT, line + b"\n")
                self._ready_line_passed = True

    def _flush(self) -> None:
        """Write the incomplete line of a gateway that died, so that the next gateway begins a new line."""
        if self._partial_line:
            _write(STDERR, self._partial_line + b"\n")
        self._partial_line = b""


def _describe_exit(code: int, lived: float) -> str:
    if code == EXIT_RESTART:
        return texts.cli.asked_for_restart(lived)
    return texts.cli.ended(code, lived)


def _write(fd: int, line: bytes) -> None:
    # The reader of our output may be gone; that must not end the gateway.
    with suppress(OSError):
        os.write(fd, line)
