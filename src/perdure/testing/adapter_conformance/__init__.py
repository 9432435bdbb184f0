"""The conformance suite for platform adapters: the contract of an adapter as tests.

    class TestMyPlatform(AdapterConformance):
        def stage(self, folder: Path) -> PlatformStage:
            return MyStage(folder)  # plays the platform, and the people on it

Each test starts real gateways with the adapter, kills them, fills their disk, cuts the line, and looks at what
people see. The suite needs no pytest plug-in: every test is a plain method.
"""

from perdure.testing.adapter_conformance.incoming import IncomingChecks, WebhookChecks
from perdure.testing.adapter_conformance.outgoing import OutgoingChecks, PreviewChecks
from perdure.testing.adapter_conformance.stage import Mishap, PlatformStage, Seen

__all__ = ["AdapterConformance", "Mishap", "PlatformStage", "Seen"]


class AdapterConformance(IncomingChecks, WebhookChecks, OutgoingChecks, PreviewChecks):
    """The suite. A subclass makes the stage of its platform. Every claim of the adapter is tested."""
