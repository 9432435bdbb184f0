"""`perdure run`, `up`, `stop`, `restart`, `drain` and `status`: start, stop and ask the gateway."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from functools import partial
from typing import Annotated
from urllib.parse import quote

import typer

from perdure import logs
from perdure.cli.output import JsonOption, print_json, print_lines
from perdure.config import load_settings
from perdure.config.secrets import collect_secrets
from perdure.core import texts
from perdure.errors import PerdureError
from perdure.supervisor import EXIT_DONE, EXIT_RESTART, QUIET_READY_VARIABLE, supervise, take_launch, take_lifeline

POLL_SECONDS = 0.1
STOP_MARGIN_SECONDS = 30.0  # after the drain deadline

app = typer.Typer(rich_markup_mode=None)


@app.command()
def run() -> None:
    """Run the gateway in the foreground."""
    from perdure.runtime.gateway import Gateway
    from perdure.tools.descriptor_limit import hide_memory, raise_limit
    from perdure.web.server import serve  # loads the web server

    hide_memory()
    raise_limit()
    lifeline, make_gateway = take_lifeline(), partial(Gateway, launch=take_launch())
    settings = load_settings()
    level = logging.DEBUG if os.environ.get("PERDURE_LOG") == "debug" else logging.INFO
    logs.to_stderr(level, collect_secrets(settings, os.environ))
    ending = asyncio.run(serve(settings, on_ready=_print_ready_line, lifeline=lifeline, make_gateway=make_gateway))
    sys.exit(EXIT_RESTART if ending == "restart" else EXIT_DONE)


def _print_ready_line(url: str) -> None:
    """Print the ready line, the only line on standard output, unless an earlier gateway has printed it."""
    if not os.environ.get(QUIET_READY_VARIABLE):
        print_lines(texts.cli.ready(url))
        sys.stdout.flush()


@app.command()
def up() -> None:
    """Run the gateway and start it again whenever it dies."""
    from perdure.tools.descriptor_limit import hide_memory

    hide_memory()
    sys.exit(supervise([sys.executable, "-m", "perdure", "run"]))


@app.command()
def stop() -> None:
    """Stop the running gateway in an orderly way."""
    _signal_and_wait(signal.SIGTERM)
    print_lines(texts.cli.GATEWAY_STOPPED)


@app.command()
def restart() -> None:
    """Restart the running gateway in an orderly way."""
    _signal_and_wait(signal.SIGUSR1)  # its supervisor starts it again
    print_lines(texts.cli.GATEWAY_RESTARTS)


def _signal_and_wait(number: int) -> None:
    """Send a signal to the process that holds the lock of the home, and wait until it has released the lock."""
    from perdure.cli.gateway_client import not_running
    from perdure.store.locks import lock_holder

    settings = load_settings()
    holder = lock_holder(settings.home / "lock")
    if holder is None:
        raise not_running(settings)
    os.kill(holder, number)
    deadline = time.monotonic() + settings.drain.deadline + STOP_MARGIN_SECONDS
    while lock_holder(settings.home / "lock") == holder:
        if time.monotonic() > deadline:
            raise PerdureError(texts.cli.does_not_stop(holder), hint=texts.cli.DOES_NOT_STOP_HINT)
        time.sleep(POLL_SECONDS)


GatewayArgument = Annotated[
    str, typer.Argument(metavar="GATEWAY", help="The id of a gateway, or its beginning; without it, the one here.")
]


@app.command()
def drain(gateway: GatewayArgument = "") -> None:
    """Ask a gateway on this database to hand over and stop."""
    from perdure.cli import gateway_client

    settings = load_settings()
    if not gateway:
        running = gateway_client.call(settings, "GET", "/api/gateways")["gateways"]
        gateway = next(each["id"] for each in running if each["this"])
    found = gateway_client.call(settings, "POST", f"/api/gateways/{quote(gateway, safe='')}/drain")
    print_lines(found["said"])


@app.command()
def status(json: JsonOption = False) -> None:
    """Say how the running gateway is."""
    from perdure.cli import gateway_client

    found = gateway_client.call(load_settings(), "GET", "/api/status")
    if json:
        print_json(found)
    else:
        print_lines(*found["summary"])
