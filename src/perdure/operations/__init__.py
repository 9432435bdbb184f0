"""The verbs of an operator, once, for whoever offers them: the command line, the console and the chat."""

from perdure.operations.transfer import (
    ImportProblem,
    ImportReport,
    export_sessions,
    export_to,
    import_from,
    import_sessions,
    read_import,
)

__all__ = [
    "ImportProblem",
    "ImportReport",
    "export_sessions",
    "export_to",
    "import_from",
    "import_sessions",
    "read_import",
]
