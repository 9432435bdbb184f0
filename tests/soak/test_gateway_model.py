"""Many more random walks with a gateway than in `make test`; see `support/gateway_model.py`.

Drives `runtime/gateway`.
"""

from __future__ import annotations

import pytest

from support.gateway_model import gateway_model_test

TestGatewayModel = pytest.mark.timeout(7200)(gateway_model_test(2000))
