"""A platform that another package brings: found by its entry point, configured, killed, and refused in words.

Drives `runtime/configured_platforms` and `plugins`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.errors import ConfigurationError
from perdure.runtime.configured_platforms import make_plugin_adapter
from perdure.settings import PluginPlatformSettings
from support.gateway import COMMAND, GatewayProcess, gateway
from support.markdown import ROOT
from support.waiting import wait_for

SCRIPT = "once invoice 0s\nstep slow 3s\nsay: done"


class Package:
    """A folder with packages in it, as `pip install` leaves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "examples" / "own_platform.py", folder)
        self.install("letters", "own_platform:Letters")

    def install(self, name: str, value: str, source: str = "") -> None:
        about = self.folder / f"platform_{name}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: platform-{name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[perdure.platforms]\n{name} = {value}\n")
        if source:
            (self.folder / f"{value.partition(':')[0]}.py").write_text(source)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Package:
    (tmp_path / "packages").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    return Package(tmp_path / "packages")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a folder for letters, beneath it as the configuration says."""
    home = tmp_path / "home"
    for person in ("ann", "bob"):
        (home / "letters" / person / "in").mkdir(parents=True)
    (home / "config.toml").write_text('[platforms.letters]\nfolder = "letters"\nallow = ["ann"]\n')
    return home


def leave(home: Path, name: str, text: str, person: str = "ann") -> None:
    letter = home / "letters" / person / "in" / f"{name}.draft"
    letter.write_text(text)
    letter.replace(letter.with_suffix(".txt"))


def answers(home: Path, person: str = "ann") -> list[str]:
    return [answer.read_text() for answer in sorted((home / "letters" / person / "out").glob("*.txt"))]


def wait_for_answers(home: Path, *texts: str) -> None:
    wait_for(f"Ann finds {len(texts)} answers", lambda: len(answers(home)) >= len(texts), 90)
    assert answers(home) == list(texts)


@pytest.fixture
def letters(package: Package, home: Path) -> Iterator[GatewayProcess]:
    with gateway(home, PLATFORMS__LETTERS__LOOK_EVERY="0.01") as process:
        yield process


def test_b70_b74_letter_is_answered_once_though_the_gateway_is_killed(letters: GatewayProcess) -> None:
    home = letters.home
    trace = home / "rehearsal.log"
    leave(home, "1", SCRIPT)
    wait_for("the second step runs", lambda: trace.exists() and "slow" in trace.read_text())
    letters.kill()
    letters.start()
    wait_for_answers(home, "done")
    letters.kill()
    leave(home, "2", "say: while you were down")
    letters.start()
    wait_for_answers(home, "done", "while you were down")
    assert trace.read_text().count("invoice") == 1
    leave(home, "1", "say: for everybody", "bob")
    (code,) = wait_for("a stranger is told a code", lambda: answers(home, "bob"))
    assert "perdure pair" in code
    assert letters.stop() == 0


def test_b41_gateway_serves_others_while_the_folder_is_not_there(letters: GatewayProcess) -> None:
    home = letters.home
    wait_for("it is ready", lambda: httpx.get(f"{letters.url}/readyz", timeout=30).status_code == 200)
    (home / "letters").rename(home / "away")
    reasons = wait_for(
        "it says what is missing", lambda: httpx.get(f"{letters.url}/readyz", timeout=30).json().get("reasons")
    )
    assert reasons[0].startswith(f"letters: there is no folder {home / 'letters'}")
    (home / "away").rename(home / "letters")
    leave(home, "1", "say: back")
    wait_for_answers(home, "back")


BROKEN = {
    "cannot be imported": ("raise RuntimeError('half installed')", "cannot be loaded: half installed"),
    "cannot be made": ("class Broken:\n    def __init__(self): raise OSError('no phone')", "OSError: no phone"),
    "is no adapter": ("class Broken: ...", "'broken' is a Broken, and no perdure.platforms.Adapter"),
    "has another name": (
        "from own_platform import Letters\nclass Broken(Letters):\n    def __init__(self): ...",
        "'broken' calls itself 'letters'",
    ),
}


@pytest.mark.parametrize(("source", "says"), BROKEN.values(), ids=BROKEN)
def test_platform_is_refused_with_a_sentence_when_it(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, says: str
) -> None:
    package.install("broken", "broken:Broken", source)
    monkeypatch.syspath_prepend(package.folder)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(ConfigurationError, match=says):
        make_plugin_adapter("broken", PluginPlatformSettings(), tmp_path)


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        pytest.param(
            '[platforms.leters]\nfolder = "x"\n[platforms.letters]\nbanner = "no"',
            ["the platforms are: web, telegram, letters.", "platforms.letters.banner: expected true or false"],
            id="as every platform's are",
        ),
        pytest.param(
            '[platforms.letters]\nfoldr = "x"\nlook_every = "often"',
            [
                "platforms.letters.folder: missing.",
                "platforms.letters.foldr: unknown key. It takes: folder, look_every.",
                "platforms.letters.look_every: Expected `float`",
            ],
            id="as its own are",
        ),
    ],
)
def test_wrong_settings_of_a_platform_are_told_all_at_once(
    package: Package, home: Path, toml: str, told: list[str]
) -> None:
    (home / "config.toml").write_text(f"{toml}\n")
    done = perdure(home, "run")
    assert done.returncode == 78, done.stderr
    assert [each for each in told if each not in done.stderr] == []


def test_platform_that_is_not_in_use_is_not_even_loaded(package: Package, home: Path) -> None:
    package.install("broken", "broken:Broken", "raise RuntimeError('half installed')")
    (home / "config.toml").write_text('[platforms.broken]\nenabled = false\n[platforms.letters]\nfolder = "x"\n')
    done = perdure(home, "config", "check")
    assert (done.returncode, done.stderr) == (0, "")


def test_own_settings_are_read_as_the_signature_says(
    package: Package, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "from __future__ import annotations\nfrom pathlib import Path\nfrom own_platform import Letters\n"
        "class Odd(Letters):\n    name = 'odd'\n"
        "    def __init__(self, folder: Path, port: int, rooms: list[str], secret: str | None = 'x', fast=0):\n"
        "        self.given = (folder, port, rooms, secret, fast)\n"
    )
    package.install("odd", "odd:Odd", source)
    monkeypatch.syspath_prepend(package.folder)
    texts = {"folder": "letters", "port": "7", "rooms": "tea, rain", "secret": ""}
    from_environment: Any = make_plugin_adapter("odd", PluginPlatformSettings(texts=texts), tmp_path)
    assert from_environment.given == (tmp_path / "letters", 7, ["tea", "rain"], None, 0)
    own = {"folder": "/away", "port": 7, "rooms": ["tea"], "fast": True}
    from_the_file: Any = make_plugin_adapter("odd", PluginPlatformSettings(own=own, texts={"port": "8"}), tmp_path)
    assert from_the_file.given == (Path("/away"), 8, ["tea"], "x", True)
    assert "away" not in repr(PluginPlatformSettings(own=own))


def perdure(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PERDURE_HOME": str(home), "PERDURE_WEB__PORT": "0"}
    return subprocess.run(
        [*COMMAND, *command], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
