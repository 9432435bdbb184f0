"""Gateways of others on Telegram: real processes, each with a home and a configuration of its own."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.peers import HERMES, NANOBOT, Peer
from perdure.testing.telegram import LocalTelegram

STARTING = 30.0  # seconds until it asks for updates
ENDING = 8.0
LAST_WORDS = 300  # characters of its log
LAUNCHER = ROOT / "bench" / "telegram_launch.py"
NOWHERE = "http://127.0.0.1:9"  # nobody listens there: whatever it wants from the world fails at once, everywhere
_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_prctl = ctypes.CDLL(None).prctl


class Arranged(NamedTuple):
    """How to run a peer."""

    command: list[str]
    files: dict[str, str]  # of its home


def _nanobot(telegram: LocalTelegram, model: str, streamed: bool) -> Arranged:
    chat = {"enabled": True, "token": telegram.token, "allowFrom": ["*"], "streaming": streamed}
    settings = {
        "agents": {"defaults": {"provider": "custom", "model": "constant"}},
        "providers": {"custom": {"apiBase": f"{model}/v1", "apiKey": "local-key"}},
        "channels": {"telegram": chat, "websocket": {"enabled": False}},
        "gateway": {"port": 0},
    }
    command = [NANOBOT.python, "-P", str(LAUNCHER), telegram.url, "gateway"]
    return Arranged(command, {".nanobot/config.json": json.dumps(settings)})


def _hermes(telegram: LocalTelegram, model: str, streamed: bool) -> Arranged:
    """People here write again at once; unless told to wait, it takes that for an interruption of its work."""
    address = {"base_url": f"{telegram.url}/bot", "base_file_url": f"{telegram.url}/file/bot"}
    asked = {"provider": "custom", "default": "constant", "base_url": f"{model}/v1", "api_key": "local-key"}
    settings: dict[str, Any] = {
        "model": asked | {"context_length": 128_000},  # or it asks the model for that again and again
        "platforms": {"telegram": {"enabled": True, "extra": address}},
        "streaming": {"enabled": streamed},
        "display": {"busy_input_mode": "queue"},
        "security": {"allow_lazy_installs": False, "tirith_enabled": False},
    }
    known = {
        "TELEGRAM_BOT_TOKEN": telegram.token,
        "TELEGRAM_ALLOW_ALL_USERS": "true",
        "TELEGRAM_HOME_CHANNEL": str(telegram.ann),
        "HERMES_TELEGRAM_DISABLE_FALLBACK_IPS": "1",
    }
    lines = "".join(f"{name}={value}\n" for name, value in known.items())
    command = [str(HERMES.programs / "hermes"), "gateway", "run"]
    return Arranged(command, {".hermes/config.yaml": json.dumps(settings), ".hermes/.env": lines})


PEERS: Mapping[Peer, Callable[[LocalTelegram, str, bool], Arranged]] = {NANOBOT: _nanobot, HERMES: _hermes}


@contextmanager
def running(name: str, home: Path, telegram: LocalTelegram, model: str, streamed: bool) -> Iterator[int]:
    """The number of the process of a peer, whose group is its own; nothing is left of it after the block."""
    [arrange] = [found for peer, found in PEERS.items() if peer.name == name]
    arranged = arrange(telegram, model, streamed)
    for path, text in arranged.files.items():
        (home / path).parent.mkdir(exist_ok=True)
        (home / path).write_text(text)
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            arranged.command,
            cwd=home,
            env=_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
    try:
        _wait_for_polls(process, telegram, home / "log")
        yield process.pid
    finally:
        _end(process)


def _environment(home: Path) -> dict[str, str]:
    proxies = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1,localhost,api.telegram.org"}
    return {"HOME": str(home), "PATH": os.defpath, "LANG": "C.UTF-8", **proxies}


def _end_with_parent() -> None:
    """Whatever ends this process ends the peer, even what leaves no time for an orderly end."""
    _prctl(_PARENT_DIES, signal.SIGKILL)


def _wait_for_polls(process: subprocess.Popen[bytes], telegram: LocalTelegram, log: Path) -> None:
    begin = time.monotonic()
    while not telegram.count("getUpdates"):
        if process.poll() is not None or time.monotonic() - begin > STARTING:
            said = " ".join(log.read_text(errors="replace").split())[-LAST_WORDS:]
            raise RuntimeError(f"it did not ask for updates within {STARTING:g} s; it said: {said}")
        time.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group; raises if anything of it stays."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        _signal(process.pid, kind)
        begin = time.monotonic()
        while time.monotonic() - begin < ENDING:
            process.poll()
            if not _signal(process.pid, 0):
                return
            time.sleep(0.05)
    raise RuntimeError("processes of it could not be ended")


def _signal(group: int, kind: int) -> bool:
    """Whether there is anybody in the group to get the signal."""
    try:
        os.killpg(group, kind)
    except ProcessLookupError:
        return False
    return True
