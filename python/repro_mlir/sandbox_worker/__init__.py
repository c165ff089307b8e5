# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The work of the sandbox's child processes, each of which reads, imports, compiles or interprets an untrusted program.

This package imports the packages that do the work. These packages import `sandbox`, so `sandbox` does not import this
package but starts `python -m repro_mlir.sandbox_worker`.
"""
