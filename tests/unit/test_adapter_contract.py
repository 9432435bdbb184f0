"""The contract of adapters: those of 0.2.0 still work, and are told what to change.

Drives `platforms/api`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from perdure.core.messages import Outbound, Receipt
from perdure.platforms import Adapter, Event


class _Rest(Adapter):
    """All of an adapter but `open`."""

    name = "there"

    async def receive(self) -> AsyncGenerator[Event]:
        return
        yield

    async def send(self, outbound: Outbound) -> Receipt:
        return Receipt(outbound.key)


def test_connect_of_an_older_adapter_is_called_as_open_and_its_author_is_told() -> None:
    with pytest.warns(DeprecationWarning, match=r"Older.connect\(\) is called open\(\) since 0.3.0"):

        class Older(_Rest):
            connected = False

            async def connect(self) -> None:
                self.connected = True

    adapter = Older()  # type: ignore[abstract]
    asyncio.run(adapter.open())
    assert adapter.connected
    assert not adapter.receives_by_lease, "each gateway receives, as in 0.2.0"


def test_receiving_of_a_newer_adapter_is_leased_unless_it_takes_posts() -> None:
    class Newer(_Rest):
        async def open(self) -> None: ...

    class Posted(Newer):
        @property
        def takes_posts(self) -> bool:
            return True

    assert Newer().receives_by_lease
    assert not Posted().receives_by_lease


def test_adapter_without_open_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="open"):
        _Rest()  # type: ignore[abstract]
