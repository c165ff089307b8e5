# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Prints the path of the substitute for the CUDA driver (lib/StubDriver), with which a bundle runs without a GPU:

REPRO_LIBCUDA=$(python -m repro_mlir.bundle.stub_driver) python model.rmb
"""

from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "_mlir_libs" / "libReproStubDriver.so"
"""The shared library, which runs kernels on the PTX emulator."""

if __name__ == "__main__":
    print(LIBRARY)
