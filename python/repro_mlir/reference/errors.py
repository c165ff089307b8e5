# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The two ways in which the reference interpreter ends without a result."""

from __future__ import annotations


class ProgramError(Exception):
    """A program that is not canonical, or arguments that do not fit it."""


class StepError(Exception):
    """(E1) The step failed: it has no result and the state is unchanged."""
