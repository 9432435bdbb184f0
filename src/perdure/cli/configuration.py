"""`perdure config` and `version`: what this installation is, and whether its settings are right."""

from __future__ import annotations

import typer

from perdure.cli.output import print_lines
from perdure.config import load_settings
from perdure.core import texts
from perdure.version import __version__

app = typer.Typer(rich_markup_mode=None)
config_app = typer.Typer(help="Look at the configuration.", no_args_is_help=True)
app.add_typer(config_app, name="config")


@app.command()
def version() -> None:
    """Print the version."""
    print_lines(f"perdure {__version__}")


@config_app.command("check")
def check() -> None:
    """Check the configuration, and that platforms, model, tools and agent are there; say where all is kept."""
    from perdure.runtime.agent_factory import AgentFactory
    from perdure.runtime.configured_platforms import configured_adapters

    settings = load_settings()
    AgentFactory(settings, [adapter.name for adapter in configured_adapters(settings)])
    print_lines(texts.cli.configuration_fine(settings.home))
