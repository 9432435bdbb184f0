"""Two gateways act on one chat at the same time: every order with one switch, and a share of those with two.

Drives `store/claims`, `store/leases`, `store/transitions`, `store/turns`, `store/outbox`, `store/answers` and
`store/erasure`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.interleaved_operations import STATES, check_all_pairs

pytestmark = pytest.mark.anyio


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("state", STATES)
async def test_b162_no_order_of_two_gateways_breaks_what_holds_for_one_after_the_other(
    postgres_url: str, tmp_path: Path, state: str
) -> None:
    await check_all_pairs(postgres_url, tmp_path, state, (1, 20))
