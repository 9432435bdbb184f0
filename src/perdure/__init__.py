"""Perdure puts an LLM agent on chat platforms; kill the process at any moment and every conversation goes on."""

__version__ = "0.1.0"
