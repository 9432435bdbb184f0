"""The patches of `make mutants` keep up with the source and with the tests.

Drives `core/states`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutations.patches import ROOT, SOURCE, Hunk, Mutation, mutations
from mutations.run import classify, run_mutation, run_tests


@pytest.fixture(scope="module")
def all_of_them() -> list[Mutation]:
    return mutations()


def test_every_patch_applies_and_leaves_source_that_compiles(all_of_them: list[Mutation], tmp_path: Path) -> None:
    assert len(all_of_them) >= 16
    for mutation in all_of_them:
        folder = tmp_path / mutation.name
        for file in {hunk.file for hunk in mutation.hunks}:
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(SOURCE / file, folder / file)
        mutation.apply(folder)
        for hunk in mutation.hunks:
            compile((folder / hunk.file).read_text(), hunk.file, "exec")
            assert hunk.before != hunk.after, mutation.name


def test_every_patch_says_what_it_breaks_and_names_a_test_that_exists(all_of_them: list[Mutation]) -> None:
    assert [mutation.name for mutation in all_of_them if not mutation.breaks.endswith(".")] == []
    named = sorted({mutation.test for mutation in all_of_them})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *named]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
    assert f"{len(named)} tests collected" in found.stdout


TEST = "tests/unit/test_turn.py::test_states_are_either_begun_or_final"


def breaking(before: str, after: str) -> Mutation:
    return Mutation("mine", "It breaks.", TEST, (Hunk("perdure/core/states.py", before, after),))


@pytest.mark.parametrize(
    ("mutation", "verdict"),
    [
        pytest.param(
            breaking("OPEN_STATES = tuple(state", "OPEN_STATES = () and tuple(state"), "killed", id="noticed"
        ),
        pytest.param(
            breaking("INITIAL_STATE = TurnState", "INITIAL_STATE = THAT = TurnState"), "survived", id="not noticed"
        ),
        pytest.param(
            breaking("INITIAL_STATE = TurnState", "INITIAL_STATE = Nothing"), "no verdict", id="cannot be imported"
        ),
        pytest.param(breaking("no such line", ""), "does not apply", id="does not apply"),
    ],
)
def test_only_a_failed_assertion_kills(mutation: Mutation, verdict: str) -> None:
    assert run_mutation(mutation).what == verdict


def test_run_says_nothing_when_another_source_was_used(tmp_path: Path) -> None:
    assert classify(run_tests(tmp_path, [TEST]))[0] == "wrong source"
