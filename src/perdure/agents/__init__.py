"""Who thinks."""

from perdure.agents.api import Agent, Reply, TurnContext

__all__ = ["Agent", "Reply", "TurnContext"]
