# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs compiled steps under the training loops and launchers of other packages. Each module imports the package that it
integrates; this file imports none of them."""
