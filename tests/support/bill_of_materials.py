"""`python -m support.bill_of_materials LOCK FILE`: writes the software bill of materials of a lock file.

The format is CycloneDX 1.6. The same lock, in an environment that was made from it, gives the same bytes: the file
has no time and no chance in it. Licences are those that the installed packages name.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from perdure.version import __version__

PROJECT = "perdure"
PACKAGE_LINE = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==([^\s;\\]+)(?: ; ([^\\]+?))? ?\\?$")
HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
REQUIRED_BY = re.compile(r"^    # (?:via|  ) ?(\S.*)$")


class LockedPackage(Struct):
    """A package of a lock file: its hashes, one for each of its files, and who requires it."""

    name: str
    version: str
    marker: str = ""
    hashes: list[str] = field(default_factory=list)
    required_by: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[LockedPackage]:
    """The packages of a lock file, in its order."""
    packages: list[LockedPackage] = []
    for line in text.splitlines():
        if found := PACKAGE_LINE.match(line):
            packages.append(LockedPackage(found[1], found[2], found[3] or ""))
        elif found := HASH.search(line):
            packages[-1].hashes.append(found[1])
        elif found := REQUIRED_BY.match(line):
            packages[-1].required_by.append(found[1])
        elif line.strip() not in ("", "# via"):
            raise ValueError(f"the lock file has a line that is not understood: {line!r}")
    return packages


def bill_of_materials(lock: str) -> dict[str, Any]:
    """The bill of materials of a lock file."""
    packages = read_lock(lock)
    shipped = _shipped(packages)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=hashlib.sha256(lock.encode()).digest()[:16], version=5)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": PROJECT,
                "name": PROJECT,
                "version": __version__,
                "licenses": _licences(PROJECT, __version__),
            }
        },
        "components": [_component(each, required=each.name in shipped) for each in packages],
        "dependencies": _dependencies(packages),
    }


def _component(package: LockedPackage, *, required: bool) -> dict[str, Any]:
    found = {
        "type": "library",
        "bom-ref": package.url,
        "name": package.name,
        "version": package.version,
        "scope": "required" if required else "excluded",  # excluded: for building and testing only
        "purl": package.url,
        "hashes": [{"alg": "SHA-256", "content": each} for each in package.hashes],
    }
    if licences := _licences(package.name, package.version):
        found["licenses"] = licences
    if package.marker:
        found["properties"] = [{"name": "perdure:only-if", "value": package.marker}]
    return found


def _shipped(packages: list[LockedPackage]) -> set[str]:
    """The names of what an installation of the project needs, with all its extras."""
    needed = {each.name for each in packages if f"{PROJECT} (pyproject.toml)" in each.required_by}
    while True:
        more = {each.name for each in packages if needed & set(each.required_by)} - needed
        if not more:
            return needed
        needed |= more


def _dependencies(packages: list[LockedPackage]) -> list[dict[str, Any]]:
    direct = sorted(each.url for each in packages if any(who.startswith(PROJECT) for who in each.required_by))
    return [
        {"ref": PROJECT, "dependsOn": direct},
        *(
            {
                "ref": each.url,
                "dependsOn": sorted(other.url for other in packages if each.name in other.required_by),
            }
            for each in packages
        ),
    ]


def _licences(name: str, version: str) -> list[dict[str, Any]]:
    """The licence that the installed package names; none if it is not installed, or names none."""
    try:
        found = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return []
    if found["Version"] != version:
        return []
    if expression := found["License-Expression"]:
        return [{"expression": expression}]
    classified = [each for each in found.get_all("Classifier") or [] if each.startswith("License :: ")]
    return [{"license": {"name": each.rpartition(" :: ")[2]}} for each in sorted(classified)]


def main() -> None:
    lock, written = sys.argv[1:]
    found = bill_of_materials(Path(lock).read_text())
    Path(written).write_text(f"{json.dumps(found, indent=2)}\n")


if __name__ == "__main__":
    main()
