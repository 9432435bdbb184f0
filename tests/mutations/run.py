"""`make mutants`: break the source in one place at a time, and see that the test which is named there notices.

A mutant is killed if that test fails by an assertion. One that survives shows a hole in the tests. A patch that
does not apply, a test that cannot be collected, an error that is no assertion: each is neither, and fails as well.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from mutations import witness
from mutations.patches import ROOT, SOURCE, DoesNotApply, Mutation, mutations

AT_ONCE = 2
LIMIT = 150  # seconds for one test


class Seen(Struct, frozen=True):
    """What came of a run of tests on some source."""

    code: int
    failures: tuple[tuple[str, str, str], ...]  # when, whether by an assertion, and the words
    foreign: str  # why this says nothing: some process used another source
    output: str


class Verdict(Struct, frozen=True):
    mutation: Mutation
    what: str  # killed, survived, or what went wrong
    words: str
    seconds: float = 0.0


def observe(folder: Path, tests: Sequence[str]) -> Seen:
    """Run tests on the source in a folder, in all processes of the run."""
    shutil.copy(witness.__file__, folder / "sitecustomize.py")
    told = folder / "verdict"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    env = inherited | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "tests")]),
        witness.FOLDER: str(folder),
        witness.VERDICT: str(told),
    }
    options = ["-q", "-x", "-p", "mutations.witness", "-p", "no:cacheprovider", f"--timeout={LIMIT}"]
    command = [sys.executable, "-m", "pytest", *options, f"--basetemp={folder / 'tmp'}", *tests]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.split("\t", 2) for line in told.read_text().splitlines()] if told.exists() else []
    foreign = (folder / witness.FOREIGN).read_text() if (folder / witness.FOREIGN).exists() else ""
    for line in lines:
        if line[0] == "source" and not line[1].startswith(f"{folder}{os.sep}"):
            foreign = f"the test used {line[1]}"
    failures = tuple((line[0], line[1], line[2]) for line in lines if line[0] != "source")
    return Seen(done.returncode, failures, foreign, done.stdout + done.stderr)


def judge(mutation: Mutation) -> Verdict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-mutant-") as name:
        folder = copied(Path(name).resolve())
        try:
            mutation.apply(folder)
        except DoesNotApply as error:
            return Verdict(mutation, "does not apply", str(error))
        seen = observe(folder, [mutation.test])
    what, words = conclusion(seen)
    return Verdict(mutation, what, words, time.monotonic() - began)


def conclusion(seen: Seen) -> tuple[str, str]:
    """Whether the mutant was killed. Only an assertion in the test itself does that."""
    if seen.foreign:
        return "wrong source", seen.foreign
    if seen.code == 0:
        return "survived", "the test passes: it does not notice"
    if seen.code != 1 or not seen.failures:
        return "no verdict", f"pytest ended with {seen.code}: {seen.output[-1500:]}"
    when, how, words = seen.failures[0]
    if when != "call" or how != "assertion":
        return "error", f"failed at {when or 'collection'} by {words[:300]}"
    return "killed", words


def copied(folder: Path) -> Path:
    """A copy of the source, so that it may be broken."""
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    return folder


def sound(chosen: Sequence[Mutation]) -> bool:
    """Whether the tests that are named pass on the source as it is; without that, their failures say nothing."""
    tests = sorted({mutation.test for mutation in chosen})
    with tempfile.TemporaryDirectory(prefix="perdure-unmutated-") as name:
        seen = observe(copied(Path(name).resolve()), ["-n", str(AT_ONCE), *tests])
    if seen.code != 0 or seen.foreign:
        print(f"The tests must pass before anything is broken. {seen.foreign}\n{seen.output[-4000:]}")
    return seen.code == 0 and not seen.foreign


def chosen_by(names: Sequence[str]) -> list[Mutation]:
    known = {mutation.name: mutation for mutation in mutations()}
    for name in names:
        if name not in known:
            raise SystemExit(f"There is no mutation {name!r}. Those there are: {', '.join(known)}.")
    return [known[name] for name in names] or list(known.values())


def main(names: Sequence[str]) -> int:
    chosen = chosen_by(names)
    if not sound(chosen):
        return 1
    width = max(len(mutation.name) for mutation in chosen)
    alive = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(judge, chosen):
            mutation = verdict.mutation
            alive += verdict.what != "killed"
            took = f"{verdict.seconds:4.0f} s"
            print(f"{mutation.name:{width}}  {verdict.what:14}  {took}  {mutation.test}", flush=True)
            if verdict.what != "killed":
                print(f"    {mutation.breaks}\n    {verdict.words}")
    print(f"{len(chosen) - alive} of {len(chosen)} killed")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
