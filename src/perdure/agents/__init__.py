"""Who thinks."""

from typing import TYPE_CHECKING, Any

from perdure.agents.api import Agent, Reply, TurnContext

if TYPE_CHECKING:
    from perdure.agents.custom.function import FunctionAgent
    from perdure.agents.custom.pydantic_agent import PydanticAgent
    from perdure.agents.custom.steps import StepContext

__all__ = ["Agent", "FunctionAgent", "PydanticAgent", "Reply", "StepContext", "TurnContext"]


def __getattr__(name: str) -> Any:
    """What agents of one's own are made of, loaded when it is first used."""
    if name == "FunctionAgent":
        from perdure.agents.custom.function import FunctionAgent

        return FunctionAgent
    if name == "StepContext":
        from perdure.agents.custom.steps import StepContext

        return StepContext
    if name == "PydanticAgent":
        from perdure.agents.custom.pydantic_agent import (
            PydanticAgent,  # brings pydantic-ai with it, which takes seconds
        )

        return PydanticAgent
    raise AttributeError(f"module 'perdure.agents' has no attribute {name!r}")
