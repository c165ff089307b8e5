# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks that a stored program is canonical, as the verifier of the compiler does, without the compiler.

`program.check_canonical` checks a program that `stored.read_program` has read: types and attributes of each operation,
the limits (A1) to (A4) of accesses, shapes and sizes, undefined elements (F6), bits of NaNs (V4), and the orders of
folds. `program.CHECKS` has a check for each operation of the stored form, and an operation without a check is refused.

The checks are written from docs/reference/numerics.md, docs/verification/identity.md and the dialects' definitions, and
share no code with the compiler. Tests compare the verdicts of both on programs of the tests and on their mutations.
"""
