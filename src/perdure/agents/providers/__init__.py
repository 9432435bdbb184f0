"""Models of real providers. Only `models` and `message_codec` load pydantic-ai."""
