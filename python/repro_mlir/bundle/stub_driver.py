# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The substitute for the CUDA driver that runs bundles without a GPU (lib/StubDriver).

REPRO_LIBCUDA=$(python -m repro_mlir.bundle.stub_driver) python model.rmb
"""

from pathlib import Path

LIBRARY = Path(__file__).parents[1] / "_mlir_libs" / "libReproStubDriver.so"
"""The shared library, which runs kernels on the PTX emulator."""

if __name__ == "__main__":
    print(LIBRARY)
