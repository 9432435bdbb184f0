"""The page on platforms of one's own: its example is the file that is tested, and its suite passes.

Drives `platforms/api` and `testing/adapter_conformance`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from perdure.errors import SendError
from perdure.testing import AdapterConformance
from support.markdown import ROOT, page

PAGE = page("docs/writing-a-platform.md")
EXAMPLE = ROOT / "examples" / "own_platform.py"


def test_page_shows_the_example_as_it_is() -> None:
    assert PAGE.blocks("python")[0] == EXAMPLE.read_text()


def test_suite_on_the_page_passes(tmp_path: Path) -> None:
    """B70, B71, B72, B73 and B74 hold for the example."""
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "test_mine.py").write_text(PAGE.blocks("python")[1])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "test_mine.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    checks = sum(name.startswith("test_") for name in dir(AdapterConformance))
    assert f"{checks} passed" in done.stdout, done.stdout + done.stderr


def test_page_names_every_error_that_a_send_may_have() -> None:
    assert {error.__name__ for error in SendError.__subclasses__()} <= set(PAGE.code())
