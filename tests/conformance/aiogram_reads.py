"""Reads answers of the Bot API with aiogram's models, in its own environment: `python aiogram_reads.py FILE`.

The file has one JSON object for each answer: the method that was called, and the body that came. Of a webhook, the
method is `update`, and the body is what was posted. It prints how many it read, and how many of them are refusals.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def main(path: str) -> None:
    from aiogram import methods  # type: ignore[import-not-found, unused-ignore]
    from aiogram.methods.base import Response  # type: ignore[import-not-found, unused-ignore]
    from aiogram.types import Update  # type: ignore[import-not-found, unused-ignore]

    known: dict[str, Any] = {
        each.__api_method__: each for each in vars(methods).values() if hasattr(each, "__api_method__")
    }
    read = refused = 0
    for line in Path(path).read_text().splitlines():
        said = json.loads(line)
        method, body = said["method"], said["body"]
        read += 1
        if method == "update":
            Update.model_validate(body, context={"bot": None})
            continue
        answer = Response[known[method].__returning__].model_validate(body, context={"bot": None})
        if answer.ok:
            assert answer.result is not None, body
        else:
            refused += 1
            assert answer.error_code and answer.description, body
    print(read, refused)


if __name__ == "__main__":
    main(sys.argv[1])
