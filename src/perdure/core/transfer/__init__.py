"""The export file: its format, and reading it back with suspicion."""
