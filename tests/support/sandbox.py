"""The sandbox for tests: a value that says that there is none."""

from __future__ import annotations

from perdure.tools.sandbox import SandboxInForce, SandboxLimits

LIMITS = SandboxLimits(memory=4000, processes=512, file_size=10_000)
NO_SANDBOX = SandboxInForce("off", "A test wants none.", "full", LIMITS)
