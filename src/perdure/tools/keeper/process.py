"""Runs one command inside its keeper: starts it, stores its output, ends it, and writes its result."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    import signal
    from types import ModuleType

    from perdure.tools.keeper.directory import (
        RECORD_VERSION,
        RecordFields,
        child_processes,
        descendant_processes,
        dumps,
        error_reason,
        fs_encode,
        loads,
        now_ms,
        process_identity,
        read_bytes,
        replace_record,
        session_processes,
        signal_processes,
    )
    from perdure.tools.keeper.stored_output import OutputFiles
else:
    from directory import (
        RECORD_VERSION,
        child_processes,
        descendant_processes,
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
        signal_processes,
    )
    from stored_output import OutputFiles

LINGER_SECONDS = 0.3  # after a command's end, for the last output of its children
KILL_RETRY_SECONDS = 5.0  # for processes that do not die of SIGKILL
STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}
IGNORED_SIGNALS = {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}  # by the keeper, not by its command
_KILL_POLL_SECONDS = 0.05
_PIECE_BYTES = 1 << 16  # as much as a pipe holds
_MAX_POLL_MS = 86_400_000.0  # for one wait; the kernel refuses 25 days


def limit_descriptors(soft: int | None) -> None:
    """Give this process the soft limit of open files that the gateway was started with."""
    if soft is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):  # the hard limit was lowered meanwhile
            return


def read_available(descriptor: int) -> bytes:
    """Read what a pipe holds now, without waiting for more."""
    try:
        return os.read(descriptor, _PIECE_BYTES)
    except BlockingIOError:
        return b""


def load_confinement() -> ModuleType:
    """The module that confines commands; only an order with a sandbox needs it."""
    if TYPE_CHECKING:
        from perdure.tools.keeper import confinement
    else:
        import confinement
    return confinement


class CommandProcess:
    """One command, from its start to its result."""

    def __init__(self, directory_fd: int, spec: RecordFields, signal_fd: int) -> None:
        self.directory_fd, self.spec, self.signal_fd = directory_fd, spec, signal_fd
        self.sandbox: RecordFields | None = spec["sandbox"]
        self.is_wrapped = self.sandbox is not None and self.sandbox["layer"] == "bwrap"  # our child is bubblewrap
        self.sandbox_status: int | None = None  # from which can be read what bubblewrap says of the command
        self.child_pid = 0
        self.output: OutputFiles | None = None
        self.input_fd: int | None = None
        self.output_pipe: int | None = None  # carries the command's output; None after every writer has closed it
        self.timeout_at: float | None = None  # when the command has used up its time
        self.kill_at: float | None = None  # set with SIGTERM: when SIGKILL follows
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
            if STOP_SIGNALS & set(read_available(self.signal_fd)):
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
        """Start the command, and record its process."""
        self.output = OutputFiles(self.directory_fd, self.spec["cap"])
        stdin_fd, (self.output_pipe, output_fd) = self.open_input(), os.pipe()
        os.set_blocking(self.output_pipe, False)
        failure_reader, failure_fd = os.pipe()
        self.sandbox_status, status_fd = os.pipe()
        if self.sandbox is not None:
            load_confinement().make_control_group(self.sandbox)
        self.child_pid = os.fork()
        if not self.child_pid:
            self.exec_command(stdin_fd, output_fd, failure_fd, status_fd)
        if self.spec["timeout"] is not None:
            self.timeout_at = time.monotonic() + self.spec["timeout"]
        for descriptor in (stdin_fd, output_fd, failure_fd, status_fd):
            os.close(descriptor)
        with os.fdopen(failure_reader, "rb") as failure:
            self.result["problem"] = loads(failure.read() or b"null")
        try:
            replace_record(
                self.directory_fd,
                "child",
                {"version": RECORD_VERSION, "wrapped": self.is_wrapped, **process_identity(self.child_pid)},
                durable=False,
            )
        except OSError:  # a full disk; the command runs all the same
            return

    def open_input(self) -> int:
        """Open the command's input: a named pipe that the keeper holds open, so that writers come and go."""
        if not self.spec["input"]:
            return os.open(os.devnull, os.O_RDONLY)
        os.mkfifo("input", 0o600, dir_fd=self.directory_fd)
        stdin_fd = os.open("input", os.O_RDONLY | os.O_NONBLOCK, dir_fd=self.directory_fd)
        self.input_fd = os.open("input", os.O_WRONLY, dir_fd=self.directory_fd)
        os.set_blocking(stdin_fd, True)
        return stdin_fd

    def exec_command(self, stdin_fd: int, output_fd: int, failure_fd: int, status_fd: int) -> None:
        """Turn this new process into the command, with nothing but what its launch spec says; never return."""
        spec, kind, code = self.spec, "directory", 126
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for number in IGNORED_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            for target, descriptor in enumerate((stdin_fd, output_fd, output_fd)):
                os.dup2(descriptor, target)
            os.chdir(fs_encode(spec["directory"]))
            os.umask(spec["umask"])
            limit_descriptors(spec["descriptors"])
            kind = "shell"
            env = {fs_encode(name): fs_encode(value) for name, value in spec["env"].items()}
            line = [fs_encode(spec["shell"]), b"-c", b"--", fs_encode(spec["command"])]
            if self.sandbox is not None:
                kind = "sandbox"
                load_confinement().exec_confined(self.sandbox, line, env, status_fd)
            os.execve(line[0], line, env)  # noqa: S606 reason: it is the shell
        except (OSError, ValueError, KeyError) as error:
            code = 127 if kind == "shell" and isinstance(error, FileNotFoundError) else 126
            subject = spec[kind] if kind != "sandbox" else ""
            os.write(failure_fd, dumps([kind, subject, error_reason(error)]).encode())
        finally:
            os._exit(code)

    def watch(self) -> None:
        """Store output and handle signals until the command is over."""
        poll = select.poll()
        poll.register(self.signal_fd, select.POLLIN)
        if self.output_pipe is not None:
            poll.register(self.output_pipe, select.POLLIN)
        while not self.is_over():
            for descriptor, _ in poll.poll(self.poll_timeout_ms()):
                if descriptor == self.signal_fd:
                    self.handle_signals()
                elif self.read_output() == 0:  # or it was closed before: the poll reports that too
                    poll.unregister(descriptor)
            self.enforce_deadlines()
        self.drain_output()

    def is_over(self) -> bool:
        """Whether the keeper waits for nothing more.

        A command is over when its own process has ended. Its children may go on, and their output right after the
        end is stored too. If the command was told to end, every process of its session must be gone.
        """
        if self.ended_at is None:
            return False
        if self.kill_at is None:
            return self.output_pipe is None or time.monotonic() >= self.ended_at + LINGER_SECONDS
        survivors = self.survivors()
        if survivors is None:
            return False
        if survivors and time.monotonic() >= max(self.kill_at, self.ended_at) + KILL_RETRY_SECONDS:
            self.result["problem"] = ["survivors", " ".join(str(pid) for pid, _ in survivors), ""]
            return True
        return not survivors

    def survivors(self) -> list[tuple[int, int]] | None:
        """The living processes of the command; None if `/proc` cannot be read now.

        Without a sandbox those of its session. In one, all that descend from us, also those in another session.
        """
        try:
            return descendant_processes(os.getpid()) if self.sandbox else session_processes(self.child_pid)
        except OSError:
            return None

    def signal_all(self, number: int, *, spare_wrapper: bool = False) -> None:
        """Signal every process of the command; bubblewrap, which only waits for the command, is spared TERM."""
        spared = self.child_pid if self.is_wrapped and spare_wrapper else 0
        signal_processes([each for each in self.survivors() or () if each[0] != spared], number)

    def poll_timeout_ms(self) -> float | None:
        """The milliseconds until the next deadline; None without one."""
        if self.kill_at is not None:
            return _KILL_POLL_SECONDS * 1000
        due = self.timeout_at if self.ended_at is None else self.ended_at + LINGER_SECONDS
        return None if due is None else min(max(0.0, due - time.monotonic()) * 1000 + 1, _MAX_POLL_MS)

    def enforce_deadlines(self) -> None:
        """Send SIGTERM to a command whose time is up, and SIGKILL after its grace."""
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
            self.signal_all(signal.SIGKILL)

    def terminate(self, grace: float) -> None:
        """Send SIGTERM to every process of the session; a second call can only shorten the grace."""
        moment = time.monotonic() + grace
        if self.kill_at is None:
            self.signal_all(signal.SIGTERM, spare_wrapper=True)
            self.signal_all(signal.SIGCONT)  # a halted process would not receive SIGTERM
        self.kill_at = moment if self.kill_at is None else min(self.kill_at, moment)

    def handle_signals(self) -> None:
        received = read_available(self.signal_fd)
        if self.ended_at is None and STOP_SIGNALS & set(received):
            self.result["stopped"] = True
            self.terminate(self.requested_grace())
        if signal.SIGUSR1 in received and self.input_fd is not None:
            os.close(self.input_fd)
            self.input_fd = None
        # WNOWAIT: until the process is reaped, no other process or session can get its id.
        waited = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self.ended_at is None and (end := os.waitid(os.P_PID, self.child_pid, waited)):
            self.ended_at = time.monotonic()
            self.result["ended_at"] = now_ms()
            self.drain_output()
            if self.is_wrapped and end.si_code != os.CLD_EXITED and self.kill_at is None:
                self.kill_at = self.ended_at  # somebody killed bubblewrap: what it leaves behind is no command
        if self.sandbox is not None:
            self.reap_orphans()

    def reap_orphans(self) -> None:
        """Reap processes that have become our children because their parents have ended; not the command."""
        for pid in child_processes():
            if pid != self.child_pid:
                os.waitpid(pid, os.WNOHANG)

    def requested_grace(self) -> float:
        try:
            return float(loads(read_bytes(self.directory_fd, "stop"))["grace"])
        except (OSError, ValueError, KeyError):
            return float(self.spec["grace"])

    def read_output(self) -> int | None:
        """Store one piece of output and return its length; None if there is none now, 0 after the last."""
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
        """Store what the pipe holds now; not more, because a child may write for ever."""
        for _ in range(16):
            if not self.read_output():
                break

    def write_result(self) -> None:
        """Write the result; retry for as long as the disk is full."""
        self.result.setdefault("ended_at", now_ms())
        if self.child_pid:
            code = os.waitstatus_to_exitcode(os.waitpid(self.child_pid, 0)[1])
            code = self.exit_code_in_sandbox(code) if self.is_wrapped else code
            self.result["exit_code" if code >= 0 else "signal"] = abs(code)
            if self.sandbox is not None and code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ):
                limit = self.sandbox["limits"]["FSIZE"]
                self.result["problem"] = self.result["problem"] or ["file_size", str(limit // 1_000_000), ""]
            if self.sandbox is not None and code:
                self.result["problem"] = self.result["problem"] or load_confinement().limit_problem(self.sandbox)
        if self.sandbox is not None:
            load_confinement().remove_control_group(self.sandbox)
        if self.output is not None:
            self.output.close()
            self.result |= {"seen": self.output.total_bytes, "kept": self.output.stored_bytes}
            self.result["problem"] = self.result["problem"] or self.output.problem
        while True:
            try:
                return replace_record(self.directory_fd, "result.json", self.result)
            except FileNotFoundError:
                return None  # the directory was removed
            except OSError:
                time.sleep(1)

    def exit_code_in_sandbox(self, code: int) -> int:
        """The command's own exit code, which bubblewrap passes on; negative for a signal that we sent.

        Bubblewrap says nothing of an exit code if the command was never started.
        """
        if self.sandbox_status is None or self.result["problem"] or code < 0:
            return code
        ended_by_us = self.result["stopped"] or self.result["timed_out"]
        os.set_blocking(self.sandbox_status, False)
        if b'"exit-code"' in read_available(self.sandbox_status) or ended_by_us:
            return 128 - code if ended_by_us and code > 128 else code
        self.result["problem"] = ["sandbox", "", "its output is what bubblewrap said"]
        return 126

    def discard_late_output(self) -> None:
        """Leave a process that reads and drops the children's later output: without a reader they would fail."""
        if self.output_pipe is None or os.fork():
            return
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.set_blocking(self.output_pipe, True)
        os.close(self.directory_fd)
        while os.read(self.output_pipe, _PIECE_BYTES):
            pass
