"""`perdure run`, `up`, `stop`, `restart` and `status`: start, stop and ask the gateway."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from functools import partial

import typer

from perdure import logs
from perdure.cli.output import JsonOption, print_json, print_lines
from perdure.config import load_settings
from perdure.config.secrets import collect_secrets
from perdure.core import texts
from perdure.supervisor import EXIT_DONE, EXIT_RESTART, QUIET_READY_VARIABLE, supervise, take_launch, take_lifeline

app = typer.Typer(rich_markup_mode=None)


@app.command()
def run() -> None:
    """Run the gateway in the foreground."""
    from perdure.runtime.gateway import Gateway
    from perdure.tools.descriptor_limit import raise_limit
    from perdure.tools.process_privacy import hide_memory
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
    from perdure.tools.process_privacy import hide_memory

    hide_memory()
    sys.exit(supervise([sys.executable, "-m", "perdure", "run"]))


@app.command()
def stop() -> None:
    """Stop the running gateway in an orderly way."""
    from perdure.cli import gateway_client

    gateway_client.stop(load_settings())
    print_lines(texts.cli.GATEWAY_STOPPED)


@app.command()
def restart() -> None:
    """Restart the running gateway in an orderly way."""
    from perdure.cli import gateway_client

    gateway_client.restart(load_settings())
    print_lines(texts.cli.GATEWAY_RESTARTS)


@app.command()
def status(json: JsonOption = False) -> None:
    """Say how the running gateway is."""
    from perdure.cli import gateway_client

    found = gateway_client.call(load_settings(), "GET", "/api/status")
    if json:
        print_json(found)
    else:
        print_lines(*found["summary"])
