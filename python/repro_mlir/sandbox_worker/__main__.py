# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The entry point of `python -m repro_mlir.sandbox_worker`: forks a child for each request that arrives at the socket
with descriptor 0."""

from repro_mlir.sandbox.server import serve
from repro_mlir.sandbox_worker.work import perform, prepare

# The server imports modules before the first fork, so that children need not import them.
prepare()
serve(perform)
