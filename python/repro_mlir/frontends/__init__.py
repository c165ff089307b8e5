# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Frontends turn models of ML frameworks into MLIR text and a signature (docs/contributors/architecture.md)."""
