# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""python -m repro_mlir.sandbox_worker: forks a child for each request that comes by descriptor 0, a socket."""

from repro_mlir.sandbox.server import serve
from repro_mlir.sandbox_worker.work import perform, prepare

# Imported before any request comes: each child has it already.
prepare()
serve(perform)
