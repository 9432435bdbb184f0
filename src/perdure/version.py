"""Which Perdure this is."""

__version__ = "0.3.0.dev0"
