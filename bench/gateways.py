"""`make bench`: measures answers through each of three gateways, and writes docs/benchmarks/gateways.md."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles

from bench import ROOT, machine
from bench.processes import say
from bench.report import goals, preamble, table, where
from bench.results import Goal
from support.gateway import Person, gateway
from support.postgres import PostgresServer, installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "gateways.md"
NAMES = ("owner", "second", "third")
ROUNDS = 40
MOST = 2.0  # of the owner's time
QUIET_CORES = 0.3  # that others may take
PATIENCE_SECONDS = 60.0
PACKAGES = ("perdure", "psycopg", "starlette", "uvicorn")

SETTING = f"""\
Three real gateways with the offline model share one PostgreSQL, and look by themselves every five seconds. The
first one has the chat. In each of {ROUNDS} rounds one message is written through each of them, so that noise meets
all. The time is taken at a client that follows the chat through the same gateway: from the first byte of the
`POST` until its stream of events has the answer."""

Times = dict[str, list[float]]


class Reader(threading.Thread):
    """Follows the chat through one gateway, and notes when each reply is seen."""

    def __init__(self, person: Person) -> None:
        super().__init__(daemon=True)
        self._person = person
        self._seen: dict[str, float] = {}
        self._changed = threading.Condition()

    def run(self) -> None:
        for _, name, data in self._person.events():
            if name == "message" and data["author"] == "agent":
                with self._changed:
                    self._seen[data["text"]] = time.perf_counter()
                    self._changed.notify_all()

    def when(self, text: str) -> float:
        """When the reply was seen."""
        with self._changed:
            if not self._changed.wait_for(lambda: text in self._seen, PATIENCE_SECONDS):
                raise SystemExit(f"the answer {text!r} was never seen")
            return self._seen[text]


def main() -> None:
    bystanders = machine.Bystanders()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        syncs = [machine.sync_rate(Path(name))]
        times = _measure(Path(name))
        syncs.append(machine.sync_rate(Path(name)))
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
    others, goal = bystanders.cores(), _goal(times)
    parts = [
        "# Several gateways, measured",
        *preamble(quiet=others <= QUIET_CORES),
        "## Goals",
        goals([goal]),
        "## Time to an answer",
        table(["through the", "p50", "p90", "of the owner's p50"], [_line(times, each) for each in NAMES]),
        "## What was measured",
        SETTING,
        "## Where and with what",
        where(syncs, others, versions, here),
    ]
    PAGE.write_text("\n\n".join(parts) + "\n")
    say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}; others took {others:.2f} cores")


def _measure(folder: Path) -> Times:
    with ExitStack() as stack:
        url = stack.enter_context(PostgresServer()).create_database("bench")
        chats = {each: stack.enter_context(_chat(folder / each, url)) for each in NAMES}
        for each in NAMES:  # the first one gets the chat, and every stream has begun
            _ask(*chats[each], f"first of {each}")
        times: Times = {each: [] for each in NAMES}
        for number in range(ROUNDS):
            for each in NAMES:
                times[each].append(_ask(*chats[each], f"{each} {number}"))
        return times


@contextmanager
def _chat(home: Path, url: str) -> Iterator[tuple[Person, Reader]]:
    """A gateway that runs, a person who writes to it, and who reads there."""
    with gateway(home, STORE__URL=url) as process:
        reader = Reader(Person(process))
        reader.start()
        yield Person(process), reader
        process.stop()


def _ask(person: Person, reader: Reader, text: str) -> float:
    began = time.perf_counter()
    person.say(f"say: {text}", text)
    return reader.when(text) - began


def _goal(times: Times) -> Goal:
    worst = max(median(found) for found in times.values()) / median(times["owner"])
    return Goal(
        "time to an answer through any gateway, p50",
        f"at most {MOST:g} times the owner's",
        f"{worst:.2f}",
        worst <= MOST,
    )


def _line(times: Times, name: str) -> list[str]:
    middle, high = median(times[name]), quantiles(times[name], n=10)[-1]
    return [name, f"{middle * 1000:.0f} ms", f"{high * 1000:.0f} ms", f"{middle / median(times['owner']):.2f}"]


if __name__ == "__main__":
    main()
