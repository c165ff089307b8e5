# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The batches of the option --script of `repro verify` and `repro dispute`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from repro_mlir.base.compiler import require_compiler
from repro_mlir.cli.options import numerics_of

if TYPE_CHECKING:
    from repro_mlir.verification.receipts.receipt import Receipt
    from repro_mlir.verification.receipts.script_inputs import ScriptInputs


def script_inputs(receipt: Receipt, options: argparse.Namespace) -> ScriptInputs | None:
    """Returns the inputs of the receipt's steps from the script of --script; None without this option."""
    if not options.script:
        return None
    require_compiler("--script")
    from repro_mlir.script_runs.batches import ScriptBatches
    from repro_mlir.verification.receipts.script_inputs import ScriptInputs

    return ScriptInputs(receipt, ScriptBatches(options.script, **numerics_of(options)))
