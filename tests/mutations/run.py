"""`make mutants`: applies one mutation at a time, and checks that its named test fails.

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
from mutations.patches import ROOT, SOURCE, Mutation, PatchDoesNotApply, mutations

MAX_CONCURRENT = 2
TEST_TIMEOUT_SECONDS = 150  # seconds for one test


class MutantRun(Struct, frozen=True):
    """The outcome of a run of tests on a copy of the source."""

    code: int
    failures: tuple[tuple[str, str, str], ...]  # when, whether by an assertion, and the words
    foreign: str  # why this says nothing: some process used another source
    output: str


class MutationResult(Struct, frozen=True):
    mutation: Mutation
    what: str  # killed, survived, or what went wrong
    words: str
    seconds: float = 0.0


def run_tests(folder: Path, tests: Sequence[str]) -> MutantRun:
    """Run tests with every process using the source in a folder."""
    shutil.copy(witness.__file__, folder / "sitecustomize.py")
    told = folder / "verdict"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
    env = inherited | {
        "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "tests")]),
        witness.FOLDER_VARIABLE: str(folder),
        witness.VERDICT_VARIABLE: str(told),
    }
    options = [
        "-q",
        "-x",
        "-p",
        "mutations.witness",
        "-p",
        "no:cacheprovider",
        f"--timeout={TEST_TIMEOUT_SECONDS}",
    ]
    command = [sys.executable, "-m", "pytest", *options, f"--basetemp={folder / 'tmp'}", *tests]
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line.split("\t", 2) for line in told.read_text().splitlines()] if told.exists() else []
    foreign = (folder / witness.FOREIGN_FILE).read_text() if (folder / witness.FOREIGN_FILE).exists() else ""
    for line in lines:
        if line[0] == "source" and not line[1].startswith(f"{folder}{os.sep}"):
            foreign = f"the test used {line[1]}"
    failures = tuple((line[0], line[1], line[2]) for line in lines if line[0] != "source")
    return MutantRun(done.returncode, failures, foreign, done.stdout + done.stderr)


def run_mutation(mutation: Mutation) -> MutationResult:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perdure-mutant-") as name:
        folder = copy_source(Path(name).resolve())
        try:
            mutation.apply(folder)
        except PatchDoesNotApply as error:
            return MutationResult(mutation, "does not apply", str(error))
        seen = run_tests(folder, [mutation.test])
    what, words = classify(seen)
    return MutationResult(mutation, what, words, time.monotonic() - began)


def classify(seen: MutantRun) -> tuple[str, str]:
    """Tell whether the mutant was killed: only a failed assertion of the test kills it."""
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


def copy_source(folder: Path) -> Path:
    """Copy the source for a mutation."""
    shutil.copytree(SOURCE, folder, dirs_exist_ok=True)
    return folder


def tests_pass_unmutated(chosen: Sequence[Mutation]) -> bool:
    """Tell whether the named tests pass on the unchanged source; otherwise their failures prove nothing."""
    tests = sorted({mutation.test for mutation in chosen})
    with tempfile.TemporaryDirectory(prefix="perdure-unmutated-") as name:
        seen = run_tests(copy_source(Path(name).resolve()), ["-n", str(MAX_CONCURRENT), *tests])
    if seen.code != 0 or seen.foreign:
        print(f"The tests must pass before anything is broken. {seen.foreign}\n{seen.output[-4000:]}")
    return seen.code == 0 and not seen.foreign


def select_mutations(names: Sequence[str]) -> list[Mutation]:
    known = {mutation.name: mutation for mutation in mutations()}
    for name in names:
        if name not in known:
            raise SystemExit(f"There is no mutation {name!r}. Those there are: {', '.join(known)}.")
    return [known[name] for name in names] or list(known.values())


def main(names: Sequence[str]) -> int:
    chosen = select_mutations(names)
    if not tests_pass_unmutated(chosen):
        return 1
    width = max(len(mutation.name) for mutation in chosen)
    alive = 0
    with ThreadPoolExecutor(MAX_CONCURRENT) as pool:
        for verdict in pool.map(run_mutation, chosen):
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
