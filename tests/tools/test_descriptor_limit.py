"""The limit of open files: all for the gateway, and for what it starts what it was given itself.

Drives `tools/descriptor_limit`.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource, subprocess
from perdure.tools.descriptor_limit import raise_limit, with_inherited_limit
raise_limit()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft == hard, flush=True)
subprocess.run(with_inherited_limit("/bin/sh", "-c", "ulimit -Sn; kill -PIPE $$; echo ignored"), check=False)
"""


def test_b97_programs_get_the_limit_that_we_were_given_and_no_ignored_signals() -> None:
    command = ["/bin/sh", "-c", 'ulimit -Sn 200; exec "$@"', "sh", sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "200"], done.stderr
