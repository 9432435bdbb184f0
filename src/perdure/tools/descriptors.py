"""The limit of open files: the gateway takes all that it may have, and what it starts gets what we were given.

Programs that wait with `select()` cannot use a descriptor beyond 1023, which is why the usual limit is low.
"""

from __future__ import annotations

import resource
from contextlib import suppress

INHERITED = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # the soft limit that this process was started with


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit, for this process and whatever it starts."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # a sandbox that forbids it: then the limit stays as it was
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
