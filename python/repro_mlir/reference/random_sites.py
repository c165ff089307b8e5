# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(R1) The seed, site and step of an operation's random numbers."""

from __future__ import annotations

import numpy as np

from repro_mlir.reference.program import Operation


def random_site(op: Operation, seed: np.ndarray, step: np.ndarray) -> tuple[int, int, int]:
    """Returns seed, site and step. Raises StepFailed (E1) if the step does not fit in 32 bits, ProgramError if the site
    does not."""
    number, site = int(step), op.attributes["site"]
    if not 0 <= number < 2**32:
        raise op.failure(f"(R1) expected a step within 0 .. 4294967295, got {number}")
    if not 0 <= site < 2**32:
        raise op.error(f"(R1) expected a site within 0 .. 4294967295, got {site}")
    return int(seed), site, number
