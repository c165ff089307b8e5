# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs bundles on a GPU; requires only Python, NumPy and the CUDA driver.

    session = repro_mlir.runner.Session("model.rmb")

    python -m repro_mlir.runner model.rmb --steps 10

The runner needs neither the compiler nor PyTorch, nor the rest of this package. `packing` lists the modules that it
needs, and a bundle contains them, so that `python model.rmb --steps 10` works without an installation of repro-mlir.
"""

from repro_mlir.runner.bundle import Bundle
from repro_mlir.runner.device import Device
from repro_mlir.runner.session import Session

__all__ = ["Bundle", "Device", "Session"]
