"""Runs nanobot with the Bot API at another address: `python bench/telegram_launch.py ADDRESS gateway`.

It has no setting for that. Everything of it runs as it comes, but for the address that the builder of its Telegram
library begins with.
"""

from __future__ import annotations

import sys
from typing import Any


def main(address: str) -> None:
    from nanobot.cli.commands import app  # type: ignore[import-not-found, unused-ignore]
    from telegram.ext import ApplicationBuilder  # type: ignore[import-not-found, unused-ignore]

    builders: Any = ApplicationBuilder
    begin = builders.__init__

    def elsewhere(builder: Any) -> None:
        begin(builder)
        builder.base_url(f"{address}/bot")

    builders.__init__ = elsewhere
    app(prog_name="nanobot")


if __name__ == "__main__":
    main(sys.argv.pop(1))
