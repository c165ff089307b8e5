# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The repro dialect: classes of its operations and enumerations."""

from repro_mlir.dialects._repro_enum_gen import *  # noqa: F403
from repro_mlir.dialects._repro_ops_gen import *  # noqa: F403
