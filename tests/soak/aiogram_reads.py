"""Reads answers of the Bot API with aiogram's models, in its own environment: `python aiogram_reads.py FILE`.

The file has one JSON object for each answer: the method that was called, and the body that came. Of a webhook, the
method is `update`, and the body is what was posted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    from aiogram import methods  # type: ignore[import-not-found, unused-ignore]
    from aiogram.types import Update  # type: ignore[import-not-found, unused-ignore]
    from pydantic import TypeAdapter

    known: dict[str, Any] = {
        each.__api_method__: each for each in vars(methods).values() if hasattr(each, "__api_method__")
    }
    read = 0
    for line in Path(path).read_text().splitlines():
        said = json.loads(line)
        if said["method"] == "update":
            Update.model_validate(said["body"], context={"bot": None})
        else:
            returning = known[said["method"]].__returning__
            body = said["body"]
            assert body["ok"] is True, body
            TypeAdapter(returning).validate_python(body["result"], context={"bot": None})
        read += 1
    print(read)


if __name__ == "__main__":
    main(sys.argv[1])
