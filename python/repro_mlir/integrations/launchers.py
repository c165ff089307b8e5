# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Detects whether torchrun or mpirun has started this process."""

from __future__ import annotations

import os

from repro_mlir.base.errors import ReproError
from repro_mlir.distributed.ranks import Ranks, Shares

_TORCHRUN = "TORCHELASTIC_RUN_ID"
_SIZES = {_TORCHRUN: "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE": "OMPI_COMM_WORLD_SIZE", "PMI_SIZE": "PMI_SIZE"}
"""Maps an environment variable that torchrun, Open MPI or MPICH sets to the variable with the number of processes."""


def _launcher() -> str | None:
    return next((name for name in _SIZES if name in os.environ), None)


def is_launched() -> bool:
    """Returns whether torchrun or mpirun has started this process, even if it is the only process."""
    return _launcher() is not None


def launched_ranks(
    shares: Shares = None,
    check_share: float = 0.0,
    shard_optimizer: bool = False,
) -> Ranks | None:
    """Connects this process with the others that the launcher has started, with the function `connect` of the
    launcher's module. Returns the ranks; None if there is only one process.

    Raises:
      ReproError: `connect` has raised it, or mpi4py is missing under mpirun.
    """
    launcher = _launcher()
    if launcher is None or os.environ.get(_SIZES[launcher]) == "1":
        return None
    if launcher == _TORCHRUN:
        from repro_mlir.integrations.torch_distributed import connect

        return connect(shares, check_share, shard_optimizer)
    try:
        from repro_mlir.integrations.mpi import connect as connect_mpi
    except ModuleNotFoundError:
        raise ReproError("ranks of mpirun need mpi4py, which is not installed: pip install mpi4py") from None
    return connect_mpi(shares, check_share, shard_optimizer)
