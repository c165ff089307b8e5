# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The work that the sandbox's child processes do on untrusted programs: they read, import, compile or interpret one.

This package imports the packages that do the work. They import `sandbox`, so `sandbox` does not import this package but
starts `python -m repro_mlir.sandbox_worker`.
"""
