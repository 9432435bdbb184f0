"""Starts the keeper by the path that a gateway of 0.2.0 knows, for one version; the program is in `keeper/`."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # as in `keeper/program.py`
if TYPE_CHECKING:
    from perdure.tools.keeper.program import main
else:
    sys.path.append(os.path.dirname(__file__) + "/keeper")  # noqa: PTH120 reason: pathlib is large
    from program import main

if __name__ == "__main__":
    main()
