"""The answers of the offline model."""

from __future__ import annotations

from collections.abc import Sequence

GREETING = (
    "Hello! I am the offline model: I run scripts, not thoughts, so that you can try Perdure without a key.\n"
    "Send me lines such as these, and kill the gateway while they run:\n"
    "    step research 2s\n"
    "    once send-invoice 2s\n"
    "    parallel: a, b, c\n"
    "    run: sleep 20; echo it ran on\n"
    "    ask: Which way? | Left | Right\n"
    "    say: All done."
)


def attachments_received(lines: Sequence[str]) -> str:
    """The offline model's words about a message's files; empty if there are none."""
    return (
        "\n".join(["I am the offline model, so I only look at the labels. You sent me:", *lines]) if lines else ""
    )


SUMMARY = "The offline model keeps no summaries: it reads its script from the message itself."
PARALLEL_USAGE = "`parallel:` wants names, such as: parallel: a, b, c"
DONE = "Done."


def flood_usage(size: str) -> str:
    return f"`flood:` wants a number of characters, such as: flood: 5000 (it got {size!r})"
