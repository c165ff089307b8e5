# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Machine-learning training steps with bit-reproducible results.

The package loads its public names on first use, so importing it imports neither torch nor the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repro_mlir.base.compiler import explain_missing_modules, has_compiler
from repro_mlir.base.lazy_imports import load_on_first_use
from repro_mlir.base.registry import register
from repro_mlir.base.reimport import share_bindings
from repro_mlir.base.shared_libraries import load_apart

if TYPE_CHECKING:
    from repro_mlir.base.errors import ReproError
    from repro_mlir.base.numerics.tensors import TensorType
    from repro_mlir.base.version import __version__ as __version__
    from repro_mlir.compile_model import compile
    from repro_mlir.determinism_report.analysis import determinism
    from repro_mlir.execute.executable import Executable, targets
    from repro_mlir.execute.stored_codes import store_codes
    from repro_mlir.execute.symbolic import SymbolicExecutable
    from repro_mlir.frontends.torch.capture.initialization import initialize
    from repro_mlir.frontends.torch.capture.programs import capture
    from repro_mlir.generation.generator import Generator
    from repro_mlir.generation.sampling import Sampling
    from repro_mlir.precision import apply_precision, precision_summary
    from repro_mlir.program import Program, SymbolicProgram
    from repro_mlir.program.accumulators import Accumulator, set_accumulators
    from repro_mlir.program.contractions import Contraction, contractions
    from repro_mlir.program.exact import exact_contractions
    from repro_mlir.script_runs.difference import diff
    from repro_mlir.tensor_dumps.dump_hooks import dump_hooks
    from repro_mlir.torch_compile import backend
    from repro_mlir.train.compiled_optimizer import compile_optimizer
    from repro_mlir.train.data import batches, permutation
    from repro_mlir.train.result import StepResult
    from repro_mlir.train.schedules import cosine_with_warmup
    from repro_mlir.train.trainer import Trainer
    from repro_mlir.verification.executors import interpret
    from repro_mlir.verification.receipts.options import ReceiptOptions
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.verification import verify

_HOMES = {
    "Accumulator": "program.accumulators",
    "Contraction": "program.contractions",
    "Executable": "execute.executable",
    "Generator": "generation.generator",
    "Program": "program",
    "Receipt": "verification.receipts.receipt",
    "ReceiptOptions": "verification.receipts.options",
    "ReproError": "base.errors",
    "Sampling": "generation.sampling",
    "StepResult": "train.result",
    "SymbolicExecutable": "execute.symbolic",
    "SymbolicProgram": "program",
    "TensorType": "base.numerics.tensors",
    "Trainer": "train.trainer",
    "__version__": "base.version",
    "apply_precision": "precision.apply",
    "backend": "torch_compile",
    "batches": "train.data",
    "capture": "frontends.torch.capture.programs",
    "compile": "compile_model",
    "compile_optimizer": "train.compiled_optimizer",
    "contractions": "program.contractions",
    "cosine_with_warmup": "train.schedules",
    "determinism": "determinism_report.analysis",
    "diff": "script_runs.difference",
    "dump_hooks": "tensor_dumps.dump_hooks",
    "exact_contractions": "program.exact",
    "initialize": "frontends.torch.capture.initialization",
    "interpret": "verification.executors",
    "permutation": "train.data",
    "precision_summary": "precision.summary",
    "set_accumulators": "program.accumulators",
    "store_codes": "execute.stored_codes",
    "targets": "execute.executable",
    "verify": "verification.receipts.verification",
}

__all__ = [
    "Accumulator",
    "Contraction",
    "Executable",
    "Generator",
    "Program",
    "Receipt",
    "ReceiptOptions",
    "ReproError",
    "Sampling",
    "StepResult",
    "SymbolicExecutable",
    "SymbolicProgram",
    "TensorType",
    "Trainer",
    "apply_precision",
    "backend",
    "batches",
    "capture",
    "compile",
    "compile_optimizer",
    "contractions",
    "cosine_with_warmup",
    "determinism",
    "diff",
    "dump_hooks",
    "exact_contractions",
    "initialize",
    "interpret",
    "permutation",
    "precision_summary",
    "set_accumulators",
    "store_codes",
    "targets",
    "verify",
]

share_bindings(__name__)
load_apart()
if has_compiler():
    register("executor", f"{__name__}.execute.executor")
else:
    explain_missing_modules(__name__)
register("sandbox worker", f"{__name__}.sandbox_worker.work")
__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
