"""Runs a local provider as a process: `python -m perdure.testing.providers --port 8500`.

Its first line of output is its URL; it serves until it gets a signal.
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

import msgspec

from perdure.testing.providers import Answer, Constant, LocalProvider, Wish

STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT}


def main() -> None:
    options = _parse()
    # Blocked before any thread starts, so that only this thread receives a signal.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    with LocalProvider(_script(options), key=options.key, port=options.port) as provider:
        sys.stdout.write(f"listening on {provider.url}\n")
        sys.stdout.flush()
        signal.sigwait(STOP_SIGNALS)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m perdure.testing.providers",
        description="A model provider on this machine, with the APIs of OpenAI and Anthropic.",
    )
    parser.add_argument(
        "--port", type=int, default=0, help="where to listen on 127.0.0.1; any free port unless given"
    )
    parser.add_argument("--key", default="local-key", help="the API key that clients must show")
    parser.add_argument(
        "--script", type=Path, help='a file of answers in JSON: [{"kind": "says", "text": "hello"}]'
    )
    parser.add_argument("--text", default="ok", help="without a script: what it answers to everybody")
    parser.add_argument("--tool", help="without a script: a tool that it calls before it answers")
    parser.add_argument("--arguments", default="{}", help="the arguments of that call, in JSON")
    parser.add_argument("--think", type=float, default=0.0, help="seconds before each answer")
    parser.add_argument("--pieces", type=int, default=1, help="how many pieces a stream sends the text in")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between those pieces")
    return parser.parse_args()


def _script(options: argparse.Namespace) -> list[Answer] | Constant:
    if options.script is not None:
        return msgspec.json.decode(options.script.read_bytes(), type=list[Answer])
    call = Wish(options.tool, options.arguments) if options.tool else None
    return Constant(options.text, call, options.think, options.pieces, options.pause)


if __name__ == "__main__":
    main()
