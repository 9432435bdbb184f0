"""Perdure puts an LLM agent on chat platforms; kill the process, and every conversation goes on."""

__version__ = "0.1.0"
