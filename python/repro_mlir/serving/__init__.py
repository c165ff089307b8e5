# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""An HTTP server for a language model, with a receipt for each answer (docs/guides/serving.md)."""
