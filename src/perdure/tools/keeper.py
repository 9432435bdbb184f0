"""A program of its own that owns one command, and outlives whoever started it; see `kept.py`.

In the directory that it is given it runs the command of `order.json`, once: whoever makes `claim` there first
decides, and the keeper does so before it starts anything. What the command says goes to `output`, what it is
told comes from `input`, and how it ended stands in `result.json`, which is written last. SIGTERM stops the
command, SIGUSR1 ends its input.

Each command has a keeper, so it imports little, and nothing of ours.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress

TYPE_CHECKING = False  # as in `typing`, which would take as long to load as all the rest
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

FORMAT = 1  # of the files in a place; who finds a higher one does not touch it
LINGER = 0.3  # seconds in which what the children of an ended command say is still taken
STUBBORN = 5.0  # seconds in which we go on killing what does not die
_TICK = 0.05
_PIECE = 1 << 16  # bytes: as much as a pipe holds


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
        order = json.loads(content(place, "order.json"))
        if order["version"] > FORMAT:
            raise ValueError(f"the order has format {order['version']}, and this keeper knows {FORMAT}")
        wake = listen()
        first = claim(place, "keeper")
    except (OSError, ValueError, KeyError) as error:
        os.write(tell, f"{type(error).__name__}: {error}".encode())
        return
    if first:
        Keeper(place, order, wake).run(tell)


def detach(kept: set[int]) -> None:
    """Let go of everything that was inherited: session, directory, files, signals."""
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN if number in (signal.SIGHUP, signal.SIGPIPE) else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for descriptor in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 reason: pathlib is large
        if descriptor > 2 and descriptor not in kept:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.close(null)


def listen() -> int:
    """Where the numbers of the signals that we heed can be read, as bytes."""
    wake, ring = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(ring, False)
    signal.set_wakeup_fd(ring, warn_on_full_buffer=False)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return wake


class Keeper:
    """One command, from its start to its result."""

    def __init__(self, place: int, order: Record, wake: int) -> None:
        self.place, self.order, self.wake = place, order, wake
        self.child = self.input = 0
        self.pipe: int | None = None  # what the command says; None when nobody can say anything any more
        self.output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=place)
        self.due: float | None = None  # when its time is up
        self.kill: float | None = None  # since it was asked to end: when that is no longer a question
        self.ended: float | None = None
        self.full = False
        self.result: Record = {"version": FORMAT, "exit_code": None, "signal": None, "seen": 0, "kept": 0}
        self.result |= {"stopped": False, "timed_out": False, "problem": None}

    def run(self, tell: int) -> None:
        try:
            self.start()
        except OSError as error:
            self.result["exit_code"] = 127 if isinstance(error, FileNotFoundError) else 126
            self.trouble("shell", self.order["shell"], error)
        os.close(tell)
        if self.child:
            self.watch()
        self.finish()
        self.leave()

    def start(self) -> None:
        """Start the command in a session of its own, with nothing but what its order says."""
        if signal.SIGTERM in self.signals():
            self.result |= {"signal": signal.SIGTERM, "stopped": True, "problem": ["early", "", ""]}
            return
        try:
            os.chdir(encoded(self.order["directory"]))
        except OSError as error:
            self.result["exit_code"] = 126
            self.trouble("directory", self.order["directory"], error)
            return
        reads, (self.pipe, says) = self.open_input(), os.pipe()
        os.umask(self.order["umask"])
        try:
            self.child = self.spawn([(reads, 0), (says, 1), (says, 2)])
        finally:
            os.chdir("/")
            os.umask(0o077)
            os.close(reads)
            os.close(says)
        os.set_blocking(self.pipe, False)
        if self.order["timeout"] is not None:
            self.due = time.monotonic() + self.order["timeout"]
        with suppress(OSError):  # a full disk; the command is ours to keep all the same
            put(self.place, "child", {"version": FORMAT, **identity(self.child)}, durable=False)

    def open_input(self) -> int:
        """Where the command reads: a pipe with a name, held open by us so that writers come and go."""
        if not self.order["input"]:
            return os.open(os.devnull, os.O_RDONLY)
        os.mkfifo("input", 0o600, dir_fd=self.place)
        reads = os.open("input", os.O_RDONLY | os.O_NONBLOCK, dir_fd=self.place)
        self.input = os.open("input", os.O_WRONLY, dir_fd=self.place)
        os.set_blocking(reads, True)
        return reads

    def spawn(self, files: list[tuple[int, int]]) -> int:
        return os.posix_spawn(
            self.order["shell"],
            [self.order["shell"], "-c", "--", encoded(self.order["command"])],
            {encoded(name): encoded(value) for name, value in self.order["env"].items()},
            file_actions=[(os.POSIX_SPAWN_DUP2, *each) for each in files],
            setsid=True,
            setsigmask=(),
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )

    def watch(self) -> None:
        """Take output and heed signals until the command is over."""
        poll = select.poll()
        poll.register(self.wake, select.POLLIN)
        poll.register(self.pipe or 0, select.POLLIN)
        while not self.over():
            for descriptor, _ in poll.poll(self.patience()):
                if descriptor == self.wake:
                    self.heed()
                elif self.take() == 0:
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
        left = members(self.child)
        if left and time.monotonic() >= max(self.kill, self.ended) + STUBBORN:
            self.result["problem"] = ["survivors", " ".join(map(str, left)), ""]
            return True
        return not left

    def patience(self) -> float | None:
        """For how many milliseconds nothing is due."""
        if self.kill is not None:
            return _TICK * 1000
        due = self.due if self.ended is None else self.ended + LINGER
        return None if due is None else max(0.0, due - time.monotonic()) * 1000 + 1

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
        if self.ended is None and (signal.SIGTERM in came or signal.SIGINT in came):
            self.result["stopped"] = True
            self.end(self.wished_grace())
        if signal.SIGUSR1 in came and self.input:
            os.close(self.input)
            self.input = 0
        # Its number is ours until we reap it, so that its session cannot be mistaken for another.
        if self.ended is None and os.waitid(os.P_PID, self.child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            self.ended = time.monotonic()
            self.result["ended_at"] = now_ms()
            self.take_rest()

    def wished_grace(self) -> float:
        try:
            return float(json.loads(content(self.place, "stop"))["grace"])
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
        if piece:
            self.keep(piece)
        else:
            os.close(self.pipe)
            self.pipe = None
        return len(piece)

    def take_rest(self) -> None:
        """Take what the pipe holds; not more, because a child may write for ever."""
        for _ in range(16):
            if not self.take():
                break

    def keep(self, piece: bytes) -> None:
        """Store output up to the cap, and count the rest."""
        self.result["seen"] += len(piece)
        piece = b"" if self.full else piece[: self.order["cap"] - self.result["kept"]]
        try:
            while piece:
                written = os.write(self.output, piece)
                self.result["kept"] += written
                piece = piece[written:]
        except OSError as error:
            self.full = True  # for good: what is kept is how it began, without a gap
            self.trouble("output", "", error)

    def trouble(self, kind: str, subject: str, error: OSError) -> None:
        self.result["problem"] = [kind, subject, error.strerror or str(error)]

    def finish(self) -> None:
        """Write the result, however long a full disk takes."""
        self.result.setdefault("ended_at", now_ms())
        if self.child:
            code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
            self.result["exit_code" if code >= 0 else "signal"] = abs(code)
        with suppress(OSError):
            os.fsync(self.output)
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
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.set_blocking(self.pipe, True)
        for descriptor in (self.place, self.output):
            os.close(descriptor)
        while os.read(self.pipe, _PIECE):
            pass


# ── shared with the gateway's side ──────────────────────────────────────────────────────────────────────────


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def encoded(text: str) -> bytes:
    """The bytes of a text, as Python takes those of the system for text."""
    return text.encode("utf-8", "surrogateescape")


def content(place: int | None, name: str) -> bytes:
    with os.fdopen(os.open(name, os.O_RDONLY, dir_fd=place), "rb") as file:
        return file.read()


def put(place: int, name: str, record: Record, *, durable: bool = True) -> None:
    """Put a record into a place, as a whole or not at all.

    What is there as `….part` is written over, not made anew: it may hold the room on the disk for this.
    """
    part = f"{name}.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=place), "wb") as file:
        file.write(json.dumps(record).encode())
        file.truncate()
        if durable:
            file.flush()
            os.fsync(file.fileno())
    os.rename(part, name, src_dir_fd=place, dst_dir_fd=place)
    if durable:
        os.fsync(place)


def claim(place: int, by: str) -> bool:
    """Claim a place; False if somebody was first.

    The claim is written under another name and then linked, which succeeds once as O_EXCL does; so it is
    complete as soon as it is there.
    """
    own = f"claim.{os.getpid()}.{time.monotonic_ns()}"
    put(place, own, {"version": FORMAT, "by": by, "at": now_ms(), **identity(os.getpid())})
    try:
        os.link(own, "claim", src_dir_fd=place, dst_dir_fd=place)
    except FileExistsError:
        return False
    finally:
        os.unlink(own, dir_fd=place)
    os.fsync(place)
    return True


def identity(pid: int) -> Record:
    """What tells a process from every other one that had or will have its number."""
    found = process(pid)
    return {"pid": pid, "started": found[2] if found else 0, "boot": boot()}


def boot() -> str:
    return content(None, "/proc/sys/kernel/random/boot_id").decode().strip()


def process(pid: int) -> tuple[str, int, int] | None:
    """The state, the session and the start time of a process, in ticks since the boot; None if there is none."""
    try:
        stat = content(None, f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    return fields[0].decode(), int(fields[3]), int(fields[19])


def members(session: int) -> list[int]:
    """The living processes of a session."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 reason: pathlib is large
    return [pid for pid in pids if (found := process(pid)) and found[1] == session and found[0] not in "ZX"]


def signal_session(session: int, number: int) -> None:
    """Signal every process of a session; not by group, because `timeout` and shells make groups of their own."""
    for pid in members(session):
        with suppress(OSError):  # it has just ended, or is not ours to end
            handle = os.pidfd_open(pid)
            try:
                found = process(pid)
                if found and found[1] == session:
                    signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)


if __name__ == "__main__":
    main()
