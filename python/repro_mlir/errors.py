# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The exceptions that every user mistake becomes."""


class ReproError(Exception):
    """A mistake in what the user gave: one line that names what was expected and what was met."""


class StepFailed(ReproError):
    """(E1) A step whose check failed, such as an index out of range: no result, and the state is unchanged."""
