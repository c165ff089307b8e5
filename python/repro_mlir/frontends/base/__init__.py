# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Code that several frontends share: creates MLIR operations in generic form, and converts the text of newer MLIR."""
