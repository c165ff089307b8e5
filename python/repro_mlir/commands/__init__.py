# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The commands of `repro`: each module has `register`, which adds its parser, and the function that it runs."""
