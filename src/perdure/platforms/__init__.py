"""The contract of a chat platform, and the adapters that come with Perdure."""

from perdure.platforms.api import CHECKPOINT, Adapter, Capabilities, Checkpoint, Event, MenuEntry, WebhookResponse

__all__ = ["CHECKPOINT", "Adapter", "Capabilities", "Checkpoint", "Event", "MenuEntry", "WebhookResponse"]
