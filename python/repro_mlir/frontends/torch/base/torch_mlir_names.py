# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The names of torch-mlir that captures use; the other modules import them from here, so that one error reports that
torch-mlir is not installed."""

from pathlib import Path

from repro_mlir.base.compiler import install_extra
from repro_mlir.frontends.base.tried_versions import UnusableVersion, private_names

try:
    import torch_mlir
except ModuleNotFoundError as error:
    raise UnusableVersion(f"captures of PyTorch models need torch-mlir: {install_extra('torch')} ({error})") from error

with private_names("torch-mlir"):
    from torch_mlir import ir
    from torch_mlir.dialects import torch as torch_dialect
    from torch_mlir.extras.fx_decomp_util import get_decomposition_table
    from torch_mlir.extras.fx_importer import (
        TORCH_DTYPE_TO_MLIR_TYPE,
        ContextCache,
        FxImporter,
        FxImporterHooks,
        GraphNodeImporter,
        InputInfo,
    )
    from torch_mlir.passmanager import PassManager

OPT = Path(torch_mlir.__path__[0]) / "_mlir_libs" / "torch-mlir-opt"
"""torch-mlir's program that runs passes."""
