"""The contracts of agents and models, the built-in agent, and the wrappers for agents that others write."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from perdure.agents.api import Agent, Reply, TurnContext

if TYPE_CHECKING:
    from perdure.agents.builtin_agent import Bounds
    from perdure.agents.custom.function import FunctionAgent
    from perdure.agents.custom.pydantic_agent import PydanticAgent
    from perdure.agents.custom.pydantic_journal import idempotency_key
    from perdure.agents.custom.steps import StepContext

__all__ = [
    "Agent",
    "Bounds",
    "FunctionAgent",
    "PydanticAgent",
    "Reply",
    "StepContext",
    "TurnContext",
    "idempotency_key",
]

_MODULES = {
    "Bounds": "perdure.agents.builtin_agent",
    "FunctionAgent": "perdure.agents.custom.function",
    "PydanticAgent": "perdure.agents.custom.pydantic_agent",  # loads pydantic-ai, which takes seconds
    "StepContext": "perdure.agents.custom.steps",
    "idempotency_key": "perdure.agents.custom.pydantic_journal",  # loads pydantic-ai, too
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used, so that the gateway starts without the libraries behind it."""
    if name not in _MODULES:
        raise AttributeError(f"module 'perdure.agents' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
