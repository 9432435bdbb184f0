"""Reports how the test of a mutant ended, and that no process used the real source.

As a pytest plug-in it records the outcome of each test. As the `sitecustomize` of the mutant's folder it is
loaded by every Python of the run, also by a gateway that a test starts; one that would use another source ends.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# Without the prefix of our settings: a gateway refuses unknown ones.
FOLDER_VARIABLE, VERDICT_VARIABLE = "MUTANT_FOLDER", "MUTANT_VERDICT"
FOREIGN_FILE = "foreign"  # a file in the folder that tells of a process which would have used another source


class SourceGuard(importlib.abc.MetaPathFinder):
    """Allows imports of `perdure` from the mutant's folder only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "perdure":
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            origin = spec.origin if spec is not None else None
            if not str(origin).startswith(f"{self._folder}{os.sep}"):
                Path(self._folder, FOREIGN_FILE).write_text(f"{sys.argv} would use {origin}\n")
                os._exit(97)
        return None


def pytest_exception_interact(
    node: pytest.Item | pytest.Collector,
    call: pytest.CallInfo[object],
    report: pytest.TestReport | pytest.CollectReport,
) -> None:
    """Record each failure: its phase, and whether an assertion failed."""
    import pytest

    assert call.excinfo is not None
    error = call.excinfo.value
    timeout = isinstance(error, pytest.fail.Exception) and str(error).startswith("Timeout")
    failed = isinstance(error, AssertionError | pytest.fail.Exception) and not timeout
    _write(f"{report.when}\t{'assertion' if failed else 'error'}\t{type(error).__name__}: {error}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    import perdure

    _write(f"source\t{perdure.__file__}\t{session.testscollected}")


def _write(line: str) -> None:
    if verdict := os.environ.get(VERDICT_VARIABLE):
        with Path(verdict).open("a") as file:
            file.write(" ".join(line.split("\n")) + "\n")


if folder := os.environ.get(FOLDER_VARIABLE):
    sys.meta_path.insert(0, SourceGuard(folder))
