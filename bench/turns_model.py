"""The model of the bench: `python -m perdure.testing.providers`, which says the same to everybody."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from statistics import median
from urllib.parse import urlsplit

from bench.turns_tool import ARGUMENTS, NAME

TEXT = "I have looked at it, and it is as it should be."
PIECES = 10
PATIENCE = 30
TIMES = 15


@contextmanager
def model(*, tool: bool = False, think: float = 0.0, pause: float = 0.0) -> Iterator[str]:
    """The address of a model in a process of its own, until the end of the block."""
    options = ["--text", TEXT, "--pieces", str(PIECES), "--think", str(think), "--pause", str(pause)]
    if tool:
        options += ["--tool", NAME, "--arguments", ARGUMENTS]
    command = [sys.executable, "-m", "perdure.testing.providers", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running.stdout.readline().removeprefix("listening on ").strip()
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(PATIENCE)


def asked_directly(url: str, *, streamed: bool) -> float:
    """Seconds until the whole answer is there for whoever asks the model with nothing in between."""
    body = json.dumps({"model": "constant", "stream": streamed, "messages": [{"role": "user", "content": "?"}]})
    headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
    taken = []
    with closing(HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        for _ in range(TIMES):
            begin = time.perf_counter()
            connection.request("POST", "/v1/chat/completions", body, headers)
            with connection.getresponse() as response:
                said = response.read()
            taken.append(time.perf_counter() - begin)
            if response.status != 200:
                raise RuntimeError(f"the model did not answer: {said!r:.200}")
    return median(taken)
