# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Exports of finished receipts in the formats that other tools read (docs/verification/exports.md)."""
