"""The keeper: a program that owns one shell command and outlives the gateway, and the gateway's side of it.

`program`, `process` and `directory` are the program, which the gateway starts by file path. The other modules run
in the gateway, which imports this package: `keeper.start_command(...)`, `keeper.read_status(...)`.
"""

from __future__ import annotations

from perdure.tools.keeper.cleanup import (
    AllBut,
    read_all_statuses,
    remove_ended,
)
from perdure.tools.keeper.client import (
    close_input,
    stop,
    wait_for_end,
    write_input,
)
from perdure.tools.keeper.output import (
    current_output_file,
    next_stored_offset,
    output_size,
    read_output,
    read_output_text,
)
from perdure.tools.keeper.spawn import (
    KEEPER_PROGRAM,
    LaunchSpec,
    start_command,
)
from perdure.tools.keeper.status import (
    DEFAULT_TIMEOUTS,
    CommandEnded,
    CommandLost,
    CommandMissing,
    CommandNeverStarted,
    CommandRunning,
    CommandStatus,
    CommandUnclaimed,
    CommandUnreadable,
    StatusTimeouts,
    make_directory,
    prevent_start,
    read_status,
    retry_os_errors,
    wait_for_status,
)

__all__ = [
    "DEFAULT_TIMEOUTS",
    "KEEPER_PROGRAM",
    "AllBut",
    "CommandEnded",
    "CommandLost",
    "CommandMissing",
    "CommandNeverStarted",
    "CommandRunning",
    "CommandStatus",
    "CommandUnclaimed",
    "CommandUnreadable",
    "LaunchSpec",
    "StatusTimeouts",
    "close_input",
    "current_output_file",
    "make_directory",
    "next_stored_offset",
    "output_size",
    "prevent_start",
    "read_all_statuses",
    "read_output",
    "read_output_text",
    "read_status",
    "remove_ended",
    "retry_os_errors",
    "start_command",
    "stop",
    "wait_for_end",
    "wait_for_status",
    "write_input",
]
