# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The version of the package, which pyproject.toml and CMakeLists.txt state too."""

__version__ = "0.1.0"
