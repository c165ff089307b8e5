# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Training steps whose every bit is defined.

Names are loaded on first use: importing this package imports neither torch nor the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy_imports import load_on_first_use

if TYPE_CHECKING:
    from .arrays import TensorType
    from .compiler import Executable, compile, targets
    from .data import batches, permutation
    from .difference.find import diff
    from .errors import ReproError
    from .exact import Contraction, contractions, exact_contractions
    from .frontends.torch.initialization import initialize
    from .frontends.torch.programs import capture
    from .program import Program
    from .receipts.options import ReceiptOptions
    from .receipts.receipt import Receipt
    from .receipts.verification import verify
    from .schedules import cosine_with_warmup
    from .trainer import Trainer

_HOMES = {
    "Contraction": "exact",
    "Executable": "compiler",
    "Program": "program",
    "Receipt": "receipts.receipt",
    "ReceiptOptions": "receipts.options",
    "ReproError": "errors",
    "TensorType": "arrays",
    "Trainer": "trainer",
    "batches": "data",
    "capture": "frontends.torch.programs",
    "compile": "compiler",
    "contractions": "exact",
    "cosine_with_warmup": "schedules",
    "diff": "difference.find",
    "exact_contractions": "exact",
    "initialize": "frontends.torch.initialization",
    "permutation": "data",
    "targets": "compiler",
    "verify": "receipts.verification",
}

__all__ = [
    "Contraction",
    "Executable",
    "Program",
    "Receipt",
    "ReceiptOptions",
    "ReproError",
    "TensorType",
    "Trainer",
    "batches",
    "capture",
    "compile",
    "contractions",
    "cosine_with_warmup",
    "diff",
    "exact_contractions",
    "initialize",
    "permutation",
    "targets",
    "verify",
]

__getattr__, __dir__ = load_on_first_use(__name__, _HOMES)
