"""Every test file names the modules that it drives, and those modules exist.

Drives no module: it reads the docstrings of the tests.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from support.markdown import ROOT

SOURCE = ROOT / "src" / "perdure"
FILES = sorted(path for path in (ROOT / "tests").glob("*/test_*.py") if path.parent.name[0] != ".")


@pytest.mark.parametrize("file", FILES, ids=[str(each.relative_to(ROOT / "tests")) for each in FILES])
def test_docstring_of_a_test_file_names_modules_that_exist(file: Path) -> None:
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    sentence = re.search(r"^Drives (.+?)\.$", docstring, re.MULTILINE | re.DOTALL)
    assert sentence is not None, "the docstring has no sentence `Drives …`"
    if sentence[1].startswith("no module: "):
        return
    names = re.findall(r"`([^`]+)`", sentence[1])
    missing = [name for name in names if not ((SOURCE / name).exists() or (SOURCE / f"{name}.py").exists())]
    assert names
    assert not missing, f"{missing} are not in src/perdure"
