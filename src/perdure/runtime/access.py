"""Who may do what. One question, asked wherever somebody wants something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from perdure.core.messages import Sender

Verb = Literal["talk", "command", "approve", "restart"]

EVERYBODY = "*"
OPERATOR = Sender("operator")  # whoever runs the gateway: no platform knows them, and no list needs to


class Access:
    """The people that the configuration lets in, per platform."""

    def __init__(self, allowed: Mapping[str, Sequence[str]]) -> None:
        self._allowed = allowed

    def may(self, platform: str, person: Sender, verb: Verb) -> bool:
        """Whether a person may. A platform without a list has let nobody in that it does not trust itself."""
        allowed = self._allowed.get(platform, (EVERYBODY,))
        return EVERYBODY in allowed or person.id in allowed
