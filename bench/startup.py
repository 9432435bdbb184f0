"""How much CPU and memory `perdure run` uses until it is ready; `python -m bench.startup` prints it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

READY = b"Perdure is ready"
COMMAND = Path(sys.executable).with_name("perdure")
PATIENCE = 60


MODELS = ("offline", "openai:gpt-5", "anthropic:claude-sonnet-5")


def measure(model: str = "offline") -> float | str:
    """CPU seconds until the ready line, or, in words, why there was none."""
    used = measure_start(model)
    return used if isinstance(used, str) else used[0]


def measure_start(model: str) -> tuple[float, int] | str:
    """CPU seconds and bytes of memory at the ready line, or, in words, why there was none."""
    if not COMMAND.exists():
        return "the command `perdure` is not installed"
    with tempfile.TemporaryDirectory() as home, (Path(home) / "stderr").open("w+b") as errors:
        gateway = _start(home, errors.fileno(), model)
        try:
            line = _first_line(gateway)
            used = cpu_of(gateway.pid), memory_of(gateway.pid)
        finally:
            _end(gateway)
        errors.seek(0)
        said = errors.read().decode(errors="replace").strip().splitlines()
    if line.startswith(READY):
        return used
    return f"`perdure run` ended without its ready line: {said[-1] if said else 'it said nothing'}"


def cpu_of(pid: int) -> float:
    """The CPU seconds, in user and system mode, of a process and the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> int:
    """The bytes of memory that a process has now."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


def _start(home: str, errors: int, model: str) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        "PERDURE_HOME": home,
        "PERDURE_WEB__PORT": "0",
        "PERDURE_MODEL__NAME": model,
        "PERDURE_MODEL__API_KEY": "none",
    }
    return subprocess.Popen(
        [COMMAND, "run"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, env=environment
    )


def _first_line(gateway: subprocess.Popen[bytes]) -> bytes:
    """The first line of standard output; empty when the gateway ended, or was ended for its silence."""
    assert gateway.stdout is not None
    watch = threading.Timer(PATIENCE, gateway.kill)
    watch.start()
    line = gateway.stdout.readline()
    watch.cancel()
    return line


def _end(gateway: subprocess.Popen[bytes]) -> None:
    gateway.send_signal(signal.SIGTERM)
    try:
        gateway.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        gateway.kill()
        gateway.communicate()


def main() -> None:
    for model in MODELS:
        used = measure_start(model)
        told = used if isinstance(used, str) else f"{used[0]:.2f} s of CPU, {used[1] / 1e6:.0f} MB"
        print(f"{model}: {told}")


if __name__ == "__main__":
    main()
