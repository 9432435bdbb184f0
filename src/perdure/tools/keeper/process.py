"""How a command is kept: started, watched, ended if need be, and its result written. The keeper's own part."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    import signal

    from perdure.tools.keeper.directory import (
        RECORD_VERSION,
        RecordFields,
        dumps,
        error_reason,
        fs_encode,
        loads,
        now_ms,
        process_identity,
        read_bytes,
        replace_record,
        session_processes,
        signal_session,
    )
else:
    from directory import (
        RECORD_VERSION,
        dumps,
        error_reason,
        fs_encode,
        loads,
        now_ms,
        process_identity,
        read_bytes,
        replace_record,
        session_processes,
        signal,
        signal_session,
    )

LINGER_SECONDS = 0.3  # seconds in which what the children of an ended command say is still taken
KILL_RETRY_SECONDS = 5.0  # seconds in which we go on killing what does not die
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
IGNORED_SIGNALS = {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}  # by the keeper, not by its command
_KILL_POLL_SECONDS = 0.05
_PIECE_BYTES = 1 << 16  # bytes: as much as a pipe holds
_MAX_POLL_MS = 86_400_000.0  # milliseconds that the kernel is asked to wait; it refuses 25 days


def limit_descriptors(soft: int | None) -> None:
    """Give this process the soft limit of open files that the gateway was started with."""
    if soft is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):  # somebody has lowered the hard limit meanwhile
            return


class OutputFiles:
    """What a command says, on disk: how it began, and its end.

    The first half of what may be kept is the file `output`. The other half rolls: what comes next fills pieces of
    a quarter each, named by their place in the whole, and before a third is begun the older one is removed. So
    whenever we die, the files say by themselves what they are.
    """

    def __init__(self, directory_fd: int, max_bytes: int) -> None:
        self._directory_fd, self._quarter = directory_fd, max_bytes // 4
        self._rolling: list[tuple[str, int]] = []  # the pieces of the end, and what they are written to
        self._file, self._room = self._open("output"), max_bytes - 2 * self._quarter
        self._head = self._file
        self.total_bytes = self.stored_bytes = 0
        self.problem: list[str] | None = None

    def append(self, piece: bytes) -> None:
        """Store what was said, if the disk lets us, and count it."""
        at, self.total_bytes = self.total_bytes, self.total_bytes + len(piece)
        try:
            while piece and self.problem is None and self._make_room(at):
                written = os.write(self._file, piece[: self._room])
                piece, at = piece[written:], at + written
                self.stored_bytes += written
                self._room -= written
        except OSError as error:
            # For good, even if there is room again: no gap is left but the one in the middle.
            self.problem = ["output", "", error_reason(error)]

    def _make_room(self, offset: int) -> bool:
        """Whether there is room for what is said at that place of the whole; a full piece is followed by a new."""
        if not self._room and self._quarter:
            if len(self._rolling) == 2:
                self._drop(*self._rolling.pop(0))
            self._file, self._room = self._open(f"output.{offset}"), self._quarter
            self._rolling.append((f"output.{offset}", self._file))
        return self._room > 0

    def _open(self, name: str) -> int:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=self._directory_fd)

    def _drop(self, name: str, file: int) -> None:
        os.unlink(name, dir_fd=self._directory_fd)
        os.close(file)
        self.stored_bytes -= self._quarter

    def close(self) -> None:
        """Wait until it is on disk."""
        for file in (self._head, *(each for _, each in self._rolling)):
            try:
                os.fsync(file)
            except OSError as error:
                self.problem = self.problem or ["output", "", error_reason(error)]
            os.close(file)


class CommandProcess:
    """One command, from its start to its result."""

    def __init__(self, directory_fd: int, spec: RecordFields, signal_fd: int) -> None:
        self.directory_fd, self.spec, self.signal_fd = directory_fd, spec, signal_fd
        self.child_pid = 0
        self.output: OutputFiles | None = None
        self.input_fd: int | None = None
        self.output_pipe: int | None = None  # what the command says; None when nobody can say anything any more
        self.timeout_at: float | None = None  # when its time is up
        self.kill_at: float | None = None  # since it was asked to end: when that is no longer a question
        self.ended_at: float | None = None
        self.result: RecordFields = {
            "version": RECORD_VERSION,
            "exit_code": None,
            "signal": None,
            "seen": 0,
            "kept": 0,
        }
        self.result |= {"stopped": False, "timed_out": False, "problem": None}

    def run(self, failure_fd: int) -> None:
        try:
            if STOP_SIGNALS & set(self.read_signals()):
                self.result |= {"signal": signal.SIGTERM, "stopped": True, "problem": ["early", "", ""]}
            else:
                self.start()
        except OSError as error:
            self.output_pipe = None
            self.result |= {"exit_code": 126, "problem": ["start", "", error_reason(error)]}
        os.close(failure_fd)
        if self.child_pid:
            self.watch()
        self.write_result()
        self.discard_late_output()

    def start(self) -> None:
        """Start the command, and record who it is."""
        self.output = OutputFiles(self.directory_fd, self.spec["cap"])
        reads, (self.output_pipe, says) = self.open_input(), os.pipe()
        os.set_blocking(self.output_pipe, False)
        failed, fails = os.pipe()
        self.child_pid = os.fork()
        if not self.child_pid:
            self.exec_command(reads, says, fails)
        if self.spec["timeout"] is not None:
            self.timeout_at = time.monotonic() + self.spec["timeout"]
        for descriptor in (reads, says, fails):
            os.close(descriptor)
        with os.fdopen(failed, "rb") as failure:
            self.result["problem"] = loads(failure.read() or b"null")
        try:
            replace_record(
                self.directory_fd,
                "child",
                {"version": RECORD_VERSION, **process_identity(self.child_pid)},
                durable=False,
            )
        except OSError:  # a full disk; the command is ours to keep all the same
            return

    def open_input(self) -> int:
        """Where the command reads: a pipe with a name, held open by us so that writers come and go."""
        if not self.spec["input"]:
            return os.open(os.devnull, os.O_RDONLY)
        os.mkfifo("input", 0o600, dir_fd=self.directory_fd)
        reads = os.open("input", os.O_RDONLY | os.O_NONBLOCK, dir_fd=self.directory_fd)
        self.input_fd = os.open("input", os.O_WRONLY, dir_fd=self.directory_fd)
        os.set_blocking(reads, True)
        return reads

    def exec_command(self, stdin_fd: int, output_fd: int, failure_fd: int) -> None:
        """Turn this new process into the command, with nothing but what its order says; never return."""
        order, kind, code = self.spec, "directory", 126
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for number in IGNORED_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            for target, descriptor in enumerate((stdin_fd, output_fd, output_fd)):
                os.dup2(descriptor, target)
            os.chdir(fs_encode(order["directory"]))
            os.umask(order["umask"])
            limit_descriptors(order["descriptors"])
            kind = "shell"
            env = {fs_encode(name): fs_encode(value) for name, value in order["env"].items()}
            line = [order["shell"], "-c", "--", fs_encode(order["command"])]
            os.execve(order["shell"], line, env)  # noqa: S606 reason: it is the shell
        except (OSError, ValueError) as error:
            code = 127 if kind == "shell" and isinstance(error, FileNotFoundError) else 126
            os.write(failure_fd, dumps([kind, order[kind], error_reason(error)]).encode())
        finally:
            os._exit(code)

    def watch(self) -> None:
        """Take output and heed signals until the command is over."""
        poll = select.poll()
        poll.register(self.signal_fd, select.POLLIN)
        if self.output_pipe is not None:
            poll.register(self.output_pipe, select.POLLIN)
        while not self.is_over():
            for descriptor, _ in poll.poll(self.poll_timeout_ms()):
                if descriptor == self.signal_fd:
                    self.handle_signals()
                elif self.read_output() == 0:  # or it was closed before, which the poll tells too
                    poll.unregister(descriptor)
            self.enforce_deadlines()
        self.drain_output()

    def is_over(self) -> bool:
        """Whether nothing more is waited for.

        A command is over when it has ended itself. Its children may go on, and what they say at once is taken
        too. If it was told to end, all that it started in its session must be gone.
        """
        if self.ended_at is None:
            return False
        if self.kill_at is None:
            return self.output_pipe is None or time.monotonic() >= self.ended_at + LINGER_SECONDS
        left = self.survivors()
        if left is None:
            return False
        if left and time.monotonic() >= max(self.kill_at, self.ended_at) + KILL_RETRY_SECONDS:
            self.result["problem"] = ["survivors", " ".join(str(pid) for pid, _ in left), ""]
            return True
        return not left

    def survivors(self) -> list[tuple[int, int]] | None:
        """The living processes of the command's session; None if the system does not let us look now."""
        try:
            return session_processes(self.child_pid)
        except OSError:
            return None

    def poll_timeout_ms(self) -> float | None:
        """For how many milliseconds nothing is due."""
        if self.kill_at is not None:
            return _KILL_POLL_SECONDS * 1000
        due = self.timeout_at if self.ended_at is None else self.ended_at + LINGER_SECONDS
        return None if due is None else min(max(0.0, due - time.monotonic()) * 1000 + 1, _MAX_POLL_MS)

    def enforce_deadlines(self) -> None:
        """End a command whose time is up, and kill one that was asked long enough."""
        now = time.monotonic()
        if (
            self.timeout_at is not None
            and now >= self.timeout_at
            and self.kill_at is None
            and self.ended_at is None
        ):
            self.result["timed_out"] = True
            self.terminate(self.spec["grace"])
        if self.kill_at is not None and now >= self.kill_at:
            signal_session(self.child_pid, signal.SIGKILL)

    def terminate(self, grace: float) -> None:
        """Ask the command and all of its session to end; asked again, have no more patience than was said."""
        moment = time.monotonic() + grace
        if self.kill_at is None:
            signal_session(self.child_pid, signal.SIGTERM)
            signal_session(self.child_pid, signal.SIGCONT)  # what is halted could not hear it
        self.kill_at = moment if self.kill_at is None else min(self.kill_at, moment)

    def read_signals(self) -> bytes:
        try:
            return os.read(self.signal_fd, _PIECE_BYTES)
        except BlockingIOError:
            return b""

    def handle_signals(self) -> None:
        came = self.read_signals()
        if self.ended_at is None and STOP_SIGNALS & set(came):
            self.result["stopped"] = True
            self.terminate(self.requested_grace())
        if signal.SIGUSR1 in came and self.input_fd is not None:
            os.close(self.input_fd)
            self.input_fd = None
        # Its number is ours until we reap it, so that its session cannot be mistaken for another.
        if self.ended_at is None and os.waitid(os.P_PID, self.child_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.ended_at = time.monotonic()
            self.result["ended_at"] = now_ms()
            self.drain_output()

    def requested_grace(self) -> float:
        try:
            return float(loads(read_bytes(self.directory_fd, "stop"))["grace"])
        except (OSError, ValueError, KeyError):
            return float(self.spec["grace"])

    def read_output(self) -> int | None:
        """Take some output, and return how much; None if there is none now, 0 if there will be none."""
        if self.output_pipe is None:
            return 0
        try:
            piece = os.read(self.output_pipe, _PIECE_BYTES)
        except BlockingIOError:
            return None
        if piece and self.output is not None:
            self.output.append(piece)
        else:
            os.close(self.output_pipe)
            self.output_pipe = None
        return len(piece)

    def drain_output(self) -> None:
        """Take what the pipe holds; not more, because a child may write for ever."""
        for _ in range(16):
            if not self.read_output():
                break

    def write_result(self) -> None:
        """Write the result, however long a full disk takes."""
        self.result.setdefault("ended_at", now_ms())
        if self.child_pid:
            code = os.waitstatus_to_exitcode(os.waitpid(self.child_pid, 0)[1])
            self.result["exit_code" if code >= 0 else "signal"] = abs(code)
        if self.output is not None:
            self.output.close()
            self.result |= {"seen": self.output.total_bytes, "kept": self.output.stored_bytes}
            self.result["problem"] = self.result["problem"] or self.output.problem
        while True:
            try:
                return replace_record(self.directory_fd, "result.json", self.result)
            except FileNotFoundError:
                return None  # the whole place was removed
            except OSError:
                time.sleep(1)

    def discard_late_output(self) -> None:
        """Let another process throw away what children still say: they would fail if nobody read it."""
        if self.output_pipe is None or os.fork():
            return
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.set_blocking(self.output_pipe, True)
        os.close(self.directory_fd)
        while os.read(self.output_pipe, _PIECE_BYTES):
            pass
