"""`make bench`: measures pages that are open, and writes docs/benchmarks/web.md."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from bench import ROOT, machine, web_report
from bench.hurried import FACTOR
from bench.processes import run, say
from bench.report import NOISE
from bench.web_pages import Pages
from bench.web_results import PAGES, Results
from support.postgres import installed_binaries

PAGE = ROOT / "docs" / "benchmarks" / "web.md"
MESSAGES = 100
TEN_MINUTES = 600  # messages, at one a second
PACKAGES = ("perdure", "starlette", "uvicorn", "h11")


def main() -> None:
    begin, bystanders = time.monotonic(), machine.Bystanders()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        sync = machine.sync_rate(Path(name))
        live = _pages(MESSAGES, 1.0)
        say(f"{PAGES} pages: {live.each / 1024:.1f} KB each")
        results = Results(live, _pages(TEN_MINUTES, 1.0 / FACTOR, "hurried"))
        results.syncs += [sync, machine.sync_rate(Path(name))]
        here, versions = machine.machine(Path(name)), machine.versions(installed_binaries(), PACKAGES)
    results.bystanders = bystanders.cores()
    PAGE.write_text(web_report.render(results, versions, here))
    for goal in results.goals():
        say(f"{goal.verdict}: {goal.what}: {goal.got}, wanted {goal.wanted}")
    say(f"other programs took {results.bystanders:.2f} cores{'' if results.quiet else ': ' + NOISE}")
    say(f"{PAGE.relative_to(ROOT)} is written, after {time.monotonic() - begin:.0f} s")


def _pages(messages: int, pause: float, *how: str) -> Pages:
    [line] = run("bench.web_pages", str(PAGES), str(messages), str(pause), *how)
    return Pages(*json.loads(line))


if __name__ == "__main__":
    main()
