# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Counts the OpInfo entries of PyTorch whose forward programs `repro-differentiate` can differentiate.

As a script: captures the forward pass of every float32 entry that autograd differentiates, and lets the compiler add
the gradients. Writes one JSON line per entry and a table of counts.

    python test/python/coverage/gradient_coverage.py [--jobs N] [--out FILE] [--accept] [NAME ...]

With --accept, the outcomes become the expected ones (expected_gradients.json), and docs/coverage/gradients.md is
rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date

import operator_coverage
from stages import Run
from suite import Outcome, Suite, run_script

STAGES = [
    "no-gradient",
    "capture",
    "differentiate",
    "import",
    "interpret",
    "accuracy",
    "bits",
    "crash",
    "timeout",
    "ok",
]
"""Stages at which an entry can end. `no-gradient`: PyTorch has no gradient to compare, or the entry draws random
numbers."""


def run_entry(name: str) -> Outcome:
    """Runs an entry through the stages in this process. Returns the stage that it reached; never raises an
    exception."""
    import numpy as np
    import torch
    from opinfo_capture import NoGradientError, NoSampleError, capture_forward
    from repro_mlir.program.differentiation import differentiate
    from support import kit

    torch.set_num_threads(1)
    run = Run(name, "capture")
    try:
        program = capture_forward(name)
        run.stage = "differentiate"
        text = differentiate(program.text, program.results, program.sources)
        run.load(text)
        results = run.interpret(*(value.numpy() for value in program.arguments))
        gradients = results[len(results) - len(program.sources) :]
        for number, (got, want) in enumerate(zip(gradients, program.gradients, strict=True)):
            np.testing.assert_allclose(got, want.numpy(), 1e-3, 1e-4, err_msg=f"gradient {number}", verbose=False)
        run.stage = "bits"
        kit.check(run.canonical, run.inputs, want=run.bits)
    except (NoGradientError, NoSampleError) as error:
        return Outcome(name, "no-gradient", f"{type(error).__name__}: {error}")
    except (Exception, SystemExit) as error:
        return run.failed(error)
    return run.ok()


def _about() -> list[str]:
    import torch

    return [
        "The entries are the forward programs of PyTorch's operator tests (OpInfo, float32, PyTorch",
        f"{torch.__version__}), {date.today()}. `repro-differentiate` adds the gradients of all floats. `ok` means:",
        "close to those of PyTorch's autograd (rtol 1e-3, atol 1e-4), and all results bit-equal between the reference",
        "interpreter and every CPU level of the machine. Entries at `no-gradient` have nothing to compare, those at",
        "`capture` no forward program.",
        "",
        "Entries that are not close compute another gradient. PyTorch's gradient of a Cholesky factor is symmetric;",
        "ours is that of the elements that are read. If `max_unpool` writes an element several times, PyTorch gives",
        "the gradient to each update, and ours to the last one. Where a square root or a logarithm of 0 is masked",
        "afterwards, and for the 2-norm of zeros, PyTorch's formula leaves out a NaN. PyTorch's gradient of",
        "`as_strided_scatter` is that of the elements that are written; ours is that of the elements that are kept.",
    ]


SUITE = Suite("gradient_coverage.py", "gradients", "Coverage of differentiation", STAGES, _about)


def entries() -> list[str]:
    """Returns the names of all entries."""
    import opinfo_capture

    return list(opinfo_capture.entries())


def run_all(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Runs each entry in a process of its own, `jobs` at a time, and yields the outcomes as the processes end."""
    return operator_coverage.run_all(names, jobs, run_entry)


if __name__ == "__main__":
    run_script(__doc__, SUITE, entries, run_all)
