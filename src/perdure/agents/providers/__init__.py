"""Models of real providers. Only `library_client`, `library_codec` and `completeness` load pydantic-ai."""
