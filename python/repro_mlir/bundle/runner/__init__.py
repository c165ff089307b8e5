# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs bundles on a GPU, with Python, NumPy and the CUDA driver alone.

    session = repro_mlir.bundle.runner.Session("model.rmb")

    python -m repro_mlir.bundle.runner model.rmb --steps 10

Neither the compiler nor PyTorch is needed, nor the rest of this package: `packing` gives the modules that are, and a
bundle carries them, so that `python model.rmb --steps 10` works where nothing of ours is installed.
"""

from repro_mlir.bundle.runner.bundle import Bundle
from repro_mlir.bundle.runner.device import Device
from repro_mlir.bundle.runner.session import Session

__all__ = ["Bundle", "Device", "Session"]
