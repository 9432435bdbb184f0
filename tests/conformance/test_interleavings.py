"""Two gateways act on one chat at the same time, in every order of their statements, on a real PostgreSQL.

Drives `store/claims`, `store/leases`, `store/transitions`, `store/turns`, `store/outbox`, `store/answers` and
`store/erasure`.

Whatever the order, what comes of it is what would have come if one had acted after the other: so of two that want
the same thing, at most one wins. Here the scheduler turns from one to the other once, after a share of the
statements; the long tests do so after every statement, and turn back, too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interleaved_operations import STATES, check_all_pairs

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("state", STATES)
async def test_b162_no_order_of_two_gateways_breaks_what_holds_for_one_after_the_other(
    postgres_url: str, tmp_path: Path, state: str
) -> None:
    await check_all_pairs(postgres_url, tmp_path, state, (4, 0))
