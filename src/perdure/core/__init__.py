"""Pure values and decisions: no I/O, no clock, no randomness, no logging, no asyncio."""
