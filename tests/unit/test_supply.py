"""What the project is made of: every package has a version and hashes, and stands in the bill of materials.

Drives no module: it reads the lock files and the Makefile.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from support.bill_of_materials import bill_of_materials, read_lock

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
NAMED_IN_LOCK = re.compile(r"^([a-zA-Z0-9._-]+)==(\S+)", re.MULTILINE)


def test_bill_of_materials_has_exactly_what_the_lock_has() -> None:
    bill = bill_of_materials(LOCK)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    listed = [(each["name"], each["version"]) for each in bill["components"]]
    assert listed == NAMED_IN_LOCK.findall(LOCK)
    hashes = [each["content"] for component in bill["components"] for each in component["hashes"]]
    assert hashes == re.findall(r"--hash=sha256:([0-9a-f]{64})", LOCK)
    assert len(listed) > 50 and all(component["hashes"] for component in bill["components"])


def test_bill_of_materials_is_the_same_each_time_and_names_licences() -> None:
    first, second = bill_of_materials(LOCK), bill_of_materials(LOCK)
    assert json.dumps(first) == json.dumps(second)
    by_name = {each["name"]: each for each in first["components"]}
    assert by_name["h11"]["licenses"], "what is installed names its licence"
    assert bill_of_materials(LOCK.replace("h11==", "h11x=="))["serialNumber"] != first["serialNumber"]


def test_bill_of_materials_tells_what_is_shipped_and_what_needs_what() -> None:
    bill = bill_of_materials(LOCK)
    scopes = {each["name"]: each["scope"] for each in bill["components"]}
    assert (scopes["msgspec"], scopes["uvicorn"], scopes["h11"]) == ("required",) * 3
    assert (scopes["pytest"], scopes["mypy"]) == ("excluded",) * 2
    references = {each["bom-ref"] for each in bill["components"]} | {"perdure"}
    for each in bill["dependencies"]:
        assert {each["ref"], *each["dependsOn"]} <= references
    needed = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    uvicorn = next(ref for ref in needed if ref.startswith("pkg:pypi/uvicorn@"))
    assert any(ref.startswith("pkg:pypi/h11@") for ref in needed[uvicorn])
    assert uvicorn in needed["perdure"]


def test_lock_with_an_unknown_line_is_refused() -> None:
    with pytest.raises(ValueError, match="not understood"):
        read_lock("h11 @ git+ssh://somewhere/h11")


def test_installer_is_pinned_by_hash_as_everything_else_is() -> None:
    """The Makefile installs nothing that is not named by version and hash in a lock file."""
    (installer,) = read_lock((ROOT / "requirements-uv.lock").read_text())
    assert installer.name == "uv"
    assert len(installer.hashes) >= 1
    installs = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert installs
    for line in installs:
        assert "--require-hashes -r" in line or "--no-deps --no-build-isolation -e ." in line, line
