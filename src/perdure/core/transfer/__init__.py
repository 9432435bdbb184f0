"""The export file: its format, its reader, and the validation of its records."""
