"""Many more stories of a gateway than `make test` has time for; see `support/stories.py`."""

from __future__ import annotations

import pytest

from support.stories import gateway_model_test

TestGatewayModel = pytest.mark.timeout(7200)(gateway_model_test(2000))
