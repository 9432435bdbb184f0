"""A whole gateway against a simple idea of what people must see; see `support/gateway_model.py`.

Drives `runtime/gateway`.

B10, B40, B41, B46, B49, B54, B62, B70, B71, B73, B75, B78: in any order, with any crashes between them.
"""

from __future__ import annotations

import pytest

from support.gateway_model import gateway_model_test

TestGatewayModel = pytest.mark.timeout(900)(gateway_model_test(50))  # hundreds of gateways are started
