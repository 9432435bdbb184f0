"""Keeps the import path of 0.2.0 for `PydanticAgent` and `idempotency_key` working for one version."""

from __future__ import annotations

import warnings

from perdure.agents.custom.pydantic_agent import PydanticAgent
from perdure.agents.custom.pydantic_journal import idempotency_key

__all__ = ["PydanticAgent", "idempotency_key"]

warnings.warn(
    "perdure.agents.pydantic goes away in the next version: import PydanticAgent and idempotency_key from"
    " perdure.agents.",
    DeprecationWarning,
    stacklevel=2,
)
