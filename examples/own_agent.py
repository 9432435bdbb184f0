"""An agent that is a function: it takes an order, asks before it buys, and buys once.

Put this file into Perdure's home directory, and write into its config.toml:

    [agent]
    entrypoint = "own_agent:answer"
"""

from __future__ import annotations

from pathlib import Path

from perdure.agents import StepContext
from perdure.errors import OutcomeUnknown

PRICES = {"tea": 3, "coffee": 4}
ORDERS = Path("orders.txt")


async def answer(context: StepContext) -> str:
    """Order what the message names. Kill the gateway wherever you like: nothing is looked up or bought twice."""
    price = await context.step("look_up", look_up, context.message, effect="pure")
    if price is None:
        return f"We have {' and '.join(PRICES)}."
    reply = await context.ask(f"That makes {price} €. Shall I order it?", ["Yes", "No"])
    if reply != "Yes":
        return "All right, another time."
    try:
        number = await context.step("order", order, context.message, price)
    except OutcomeUnknown:
        return (
            "I was cut off while I ordered, and cannot tell whether it went out. Please look before you try again."
        )
    return f"Your {context.message} is number {number}."


def look_up(wanted: str) -> int | None:
    """What it costs. It changes nothing, so it may be repeated: its effect is `pure`."""
    return PRICES.get(wanted.strip().lower())


def order(wanted: str, price: int) -> int:
    """Buy it. Nobody wants two by accident, so it is a `once` step, as every step is that does not say."""
    with ORDERS.open("a") as book:
        book.write(f"{wanted} {price}\n")
    return len(ORDERS.read_text().splitlines())
