"""An agent of pydantic-ai, with a tool that may be repeated and one that may not.

Put this file into Perdure's home directory, set OPENAI_API_KEY, and write into config.toml:

    [agent]
    entrypoint = "pydantic_agent:agent"
"""

from __future__ import annotations

from pathlib import Path

from pydantic_ai import Agent

from perdure.agents import PydanticAgent

STOCK = {"tea": 12, "coffee": 0}
MAILS = Path("mails.txt")

clerk = Agent(
    "openai:gpt-5",
    instructions="You are the clerk of a small shop. Look before you promise anything.",
    defer_model_check=True,
)


@clerk.tool_plain(metadata={"perdure_effect": "pure"})
def count_stock(item: str) -> int:
    """How many of an item are left."""
    return STOCK.get(item, 0)


@clerk.tool_plain
def send_mail(to: str, text: str) -> str:
    """Send a mail. It does not say what repeating it would mean, so it is never repeated."""
    with MAILS.open("a") as mails:
        mails.write(f"{to}: {text}\n")
    return "sent"


agent = PydanticAgent(clerk, clarify=True)
