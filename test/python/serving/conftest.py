# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A fixture: a server that all tests of a file share."""

from collections.abc import Iterator

import pytest
from support.small_server import SmallServer, known_generator, known_identity


@pytest.fixture(scope="session")
def server() -> Iterator[SmallServer]:
    """Starts a server with three slots and small limits."""
    pytest.importorskip("torch_mlir")
    options = {"waiting": 40, "body_bytes": 4096, "body_seconds": 1.5, "idle_seconds": 1.0, "write_seconds": 1.5}
    with SmallServer(options=options) as made:
        # Fills the caches of these functions while the server starts.
        known_identity()
        known_generator(1, 5, "cpu:x86-64-v2")
        yield made
        status, output, errors = made.end()
        assert (status, output, errors) == (0, "ended\n", "")
