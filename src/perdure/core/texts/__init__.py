"""Every sentence that Perdure says to people and models, by topic: `texts.recovery.banner(…)`.

`explanation` is imported where it is needed: it words the decisions of `core.recovery.decision`, which itself
uses these texts.
"""

from perdure.core.texts import (
    agents,
    chat_commands,
    cli,
    console,
    delivery,
    files,
    gateways,
    http,
    logins,
    people,
    phrases,
    platforms,
    processes,
    questions,
    recovery,
    sandbox,
    tool_calls,
    turns,
)

__all__ = [
    "agents",
    "chat_commands",
    "cli",
    "console",
    "delivery",
    "files",
    "gateways",
    "http",
    "logins",
    "people",
    "phrases",
    "platforms",
    "processes",
    "questions",
    "recovery",
    "sandbox",
    "tool_calls",
    "turns",
]
