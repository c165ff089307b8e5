# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The launcher that has started this process, if one has: torchrun or mpirun."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..distributed.ranks import Ranks

_TORCHRUN = "TORCHELASTIC_RUN_ID"
_MPIRUN = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK")
"""What Open MPI and MPICH set in the environment of the processes that they start."""


def launched_ranks(shares: Sequence[int] | None = None, check_share: float = 0.0) -> Ranks | None:
    """The ranks that have been started with this process, as the `connect` of their engine gives them; None where it is
    alone. Raises as `connect`."""
    if _TORCHRUN in os.environ:
        from .torch_distributed import connect

        return connect(shares, check_share)
    if any(name in os.environ for name in _MPIRUN):
        from .mpi import connect as connect_mpi

        return connect_mpi(shares, check_share)
    return None
