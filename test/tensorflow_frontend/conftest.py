# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Silences TensorFlow's log with an environment variable, which TensorFlow reads when it is imported."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
