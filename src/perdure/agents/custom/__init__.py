"""Agents that other people write: async functions, and agents of pydantic-ai."""
