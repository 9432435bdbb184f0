"""How a command is kept: started, watched, ended if need be, and its result written. The keeper's own part."""

from __future__ import annotations

import os
import select
import time

TYPE_CHECKING = False  # see keeper.py
if TYPE_CHECKING:
    import signal

    from perdure.tools.place import (
        FORMAT,
        Record,
        content,
        dumps,
        encoded,
        identity,
        loads,
        members,
        now_ms,
        put,
        reason,
        signal_session,
    )
else:
    from place import (
        FORMAT,
        content,
        dumps,
        encoded,
        identity,
        loads,
        members,
        now_ms,
        put,
        reason,
        signal,
        signal_session,
    )

LINGER = 0.3  # seconds in which what the children of an ended command say is still taken
STUBBORN = 5.0  # seconds in which we go on killing what does not die
STOPS = {signal.SIGTERM, signal.SIGINT}
IGNORED = {signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ}  # by the keeper, not by its command
_TICK = 0.05
_PIECE = 1 << 16  # bytes: as much as a pipe holds
_LONGEST = 86_400_000.0  # milliseconds that the kernel is asked to wait; it refuses 25 days


def limit_descriptors(soft: int | None) -> None:
    """Give this process the soft limit of open files that the gateway was started with."""
    if soft is not None:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        except (OSError, ValueError):  # somebody has lowered the hard limit meanwhile
            return


class Output:
    """What a command says, on disk: how it began, and its end.

    The first half of what may be kept is the file `output`. The other half rolls: what comes next fills pieces of
    a quarter each, named by their place in the whole, and before a third is begun the older one is removed. So
    whenever we die, the files say by themselves what they are.
    """

    def __init__(self, place: int, cap: int) -> None:
        self._place, self._quarter = place, cap // 4
        self._rolling: list[tuple[str, int]] = []  # the pieces of the end, and what they are written to
        self._file, self._room = self._open("output"), cap - 2 * self._quarter
        self._head = self._file
        self.seen = self.kept = 0
        self.problem: list[str] | None = None

    def add(self, said: bytes) -> None:
        """Store what was said, if the disk lets us, and count it."""
        at, self.seen = self.seen, self.seen + len(said)
        try:
            while said and self.problem is None and self._has_room(at):
                written = os.write(self._file, said[: self._room])
                said, at = said[written:], at + written
                self.kept += written
                self._room -= written
        except OSError as error:
            # For good, even if there is room again: no gap is left but the one in the middle.
            self.problem = ["output", "", reason(error)]

    def _has_room(self, at: int) -> bool:
        """Whether there is room for what is said at that place of the whole; a full piece is followed by a new."""
        if not self._room and self._quarter:
            if len(self._rolling) == 2:
                self._drop(*self._rolling.pop(0))
            self._file, self._room = self._open(f"output.{at}"), self._quarter
            self._rolling.append((f"output.{at}", self._file))
        return self._room > 0

    def _open(self, name: str) -> int:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=self._place)

    def _drop(self, name: str, file: int) -> None:
        os.unlink(name, dir_fd=self._place)
        os.close(file)
        self.kept -= self._quarter

    def close(self) -> None:
        """Wait until it is on disk."""
        for file in (self._head, *(each for _, each in self._rolling)):
            try:
                os.fsync(file)
            except OSError as error:
                self.problem = self.problem or ["output", "", reason(error)]
            os.close(file)


class Keeping:
    """One command, from its start to its result."""

    def __init__(self, place: int, order: Record, wake: int) -> None:
        self.place, self.order, self.wake = place, order, wake
        self.child = 0
        self.output: Output | None = None
        self.input: int | None = None
        self.pipe: int | None = None  # what the command says; None when nobody can say anything any more
        self.due: float | None = None  # when its time is up
        self.kill: float | None = None  # since it was asked to end: when that is no longer a question
        self.ended: float | None = None
        self.result: Record = {"version": FORMAT, "exit_code": None, "signal": None, "seen": 0, "kept": 0}
        self.result |= {"stopped": False, "timed_out": False, "problem": None}

    def run(self, tell: int) -> None:
        try:
            if STOPS & set(self.signals()):
                self.result |= {"signal": signal.SIGTERM, "stopped": True, "problem": ["early", "", ""]}
            else:
                self.start()
        except OSError as error:
            self.pipe = None
            self.result |= {"exit_code": 126, "problem": ["start", "", reason(error)]}
        os.close(tell)
        if self.child:
            self.watch()
        self.finish()
        self.leave()

    def start(self) -> None:
        """Start the command, and record who it is."""
        self.output = Output(self.place, self.order["cap"])
        reads, (self.pipe, says) = self.open_input(), os.pipe()
        os.set_blocking(self.pipe, False)
        failed, fails = os.pipe()
        self.child = os.fork()
        if not self.child:
            self.become(reads, says, fails)
        if self.order["timeout"] is not None:
            self.due = time.monotonic() + self.order["timeout"]
        for descriptor in (reads, says, fails):
            os.close(descriptor)
        with os.fdopen(failed, "rb") as failure:
            self.result["problem"] = loads(failure.read() or b"null")
        try:
            put(self.place, "child", {"version": FORMAT, **identity(self.child)}, durable=False)
        except OSError:  # a full disk; the command is ours to keep all the same
            return

    def open_input(self) -> int:
        """Where the command reads: a pipe with a name, held open by us so that writers come and go."""
        if not self.order["input"]:
            return os.open(os.devnull, os.O_RDONLY)
        os.mkfifo("input", 0o600, dir_fd=self.place)
        reads = os.open("input", os.O_RDONLY | os.O_NONBLOCK, dir_fd=self.place)
        self.input = os.open("input", os.O_WRONLY, dir_fd=self.place)
        os.set_blocking(reads, True)
        return reads

    def become(self, reads: int, says: int, fails: int) -> None:
        """Turn this new process into the command, with nothing but what its order says; never return."""
        order, kind, code = self.order, "directory", 126
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            for number in IGNORED:
                signal.signal(number, signal.SIG_DFL)
            for target, descriptor in enumerate((reads, says, says)):
                os.dup2(descriptor, target)
            os.chdir(encoded(order["directory"]))
            os.umask(order["umask"])
            limit_descriptors(order["descriptors"])
            kind = "shell"
            env = {encoded(name): encoded(value) for name, value in order["env"].items()}
            line = [order["shell"], "-c", "--", encoded(order["command"])]
            os.execve(order["shell"], line, env)  # noqa: S606 reason: it is the shell
        except (OSError, ValueError) as error:
            code = 127 if kind == "shell" and isinstance(error, FileNotFoundError) else 126
            os.write(fails, dumps([kind, order[kind], reason(error)]).encode())
        finally:
            os._exit(code)

    def watch(self) -> None:
        """Take output and heed signals until the command is over."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        if self.pipe is not None:
            poll.register(self.pipe, select.POLLIN)
        while not self.over():
            for descriptor, _ in poll.poll(self.patience()):
                if descriptor == self.wake:
                    self.heed()
                elif self.take() == 0:  # or it was closed before, which the poll tells too
                    poll.unregister(descriptor)
            self.press()
        self.take_rest()

    def over(self) -> bool:
        """Whether nothing more is waited for.

        A command is over when it has ended itself. Its children may go on, and what they say at once is taken
        too. If it was told to end, all that it started in its session must be gone.
        """
        if self.ended is None:
            return False
        if self.kill is None:
            return self.pipe is None or time.monotonic() >= self.ended + LINGER
        left = self.survivors()
        if left is None:
            return False
        if left and time.monotonic() >= max(self.kill, self.ended) + STUBBORN:
            self.result["problem"] = ["survivors", " ".join(str(pid) for pid, _ in left), ""]
            return True
        return not left

    def survivors(self) -> list[tuple[int, int]] | None:
        """The living processes of the command's session; None if the system does not let us look now."""
        try:
            return members(self.child)
        except OSError:
            return None

    def patience(self) -> float | None:
        """For how many milliseconds nothing is due."""
        if self.kill is not None:
            return _TICK * 1000
        due = self.due if self.ended is None else self.ended + LINGER
        return None if due is None else min(max(0.0, due - time.monotonic()) * 1000 + 1, _LONGEST)

    def press(self) -> None:
        """End a command whose time is up, and kill one that was asked long enough."""
        now = time.monotonic()
        if self.due is not None and now >= self.due and self.kill is None and self.ended is None:
            self.result["timed_out"] = True
            self.end(self.order["grace"])
        if self.kill is not None and now >= self.kill:
            signal_session(self.child, signal.SIGKILL)

    def end(self, grace: float) -> None:
        """Ask the command and all of its session to end; asked again, have no more patience than was said."""
        moment = time.monotonic() + grace
        if self.kill is None:
            signal_session(self.child, signal.SIGTERM)
            signal_session(self.child, signal.SIGCONT)  # what is halted could not hear it
        self.kill = moment if self.kill is None else min(self.kill, moment)

    def signals(self) -> bytes:
        try:
            return os.read(self.wake, _PIECE)
        except BlockingIOError:
            return b""

    def heed(self) -> None:
        came = self.signals()
        if self.ended is None and STOPS & set(came):
            self.result["stopped"] = True
            self.end(self.wished_grace())
        if signal.SIGUSR1 in came and self.input is not None:
            os.close(self.input)
            self.input = None
        # Its number is ours until we reap it, so that its session cannot be mistaken for another.
        if self.ended is None and os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.ended = time.monotonic()
            self.result["ended_at"] = now_ms()
            self.take_rest()

    def wished_grace(self) -> float:
        try:
            return float(loads(content(self.place, "stop"))["grace"])
        except (OSError, ValueError, KeyError):
            return float(self.order["grace"])

    def take(self) -> int | None:
        """Take some output, and return how much; None if there is none now, 0 if there will be none."""
        if self.pipe is None:
            return 0
        try:
            piece = os.read(self.pipe, _PIECE)
        except BlockingIOError:
            return None
        if piece and self.output is not None:
            self.output.add(piece)
        else:
            os.close(self.pipe)
            self.pipe = None
        return len(piece)

    def take_rest(self) -> None:
        """Take what the pipe holds; not more, because a child may write for ever."""
        for _ in range(16):
            if not self.take():
                break

    def finish(self) -> None:
        """Write the result, however long a full disk takes."""
        self.result.setdefault("ended_at", now_ms())
        if self.child:
            code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
            self.result["exit_code" if code >= 0 else "signal"] = abs(code)
        if self.output is not None:
            self.output.close()
            self.result |= {"seen": self.output.seen, "kept": self.output.kept}
            self.result["problem"] = self.result["problem"] or self.output.problem
        while True:
            try:
                return put(self.place, "result.json", self.result)
            except FileNotFoundError:
                return None  # the whole place was removed
            except OSError:
                time.sleep(1)

    def leave(self) -> None:
        """Let another process throw away what children still say: they would fail if nobody read it."""
        if self.pipe is None or os.fork():
            return
        for number in STOPS:
            signal.signal(number, signal.SIG_DFL)
        os.set_blocking(self.pipe, True)
        os.close(self.place)
        while os.read(self.pipe, _PIECE):
            pass
