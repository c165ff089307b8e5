# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Readers and writers of archives, tensors and JSON; untrusted files are read within resource limits."""
