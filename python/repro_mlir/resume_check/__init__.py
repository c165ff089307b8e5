# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks whether a user's own PyTorch script resumes exactly: compares a run of 2n steps with a run of n steps that a
second process resumes, and names the state that was not restored.

The scripts run in processes of their own, where `import_hook.py` and `recorder.py` record digests of the state before
each optimizer step. These two files import nothing of this package, so that they work in any Python environment with
PyTorch. The other modules compare the records; they need neither PyTorch nor the compiler."""
