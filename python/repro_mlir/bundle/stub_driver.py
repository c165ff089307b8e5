# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The stand-in for the CUDA driver, with which bundles run where there is no GPU (lib/StubDriver).

REPRO_LIBCUDA=$(python -m repro_mlir.bundle.stub_driver) python model.rmb
"""

from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "_mlir_libs" / "libReproStubDriver.so"
"""The shared library, whose kernels run on the PTX emulator."""

if __name__ == "__main__":
    print(LIBRARY)
