# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Entry point of `python -m repro_mlir.runner`."""

import sys

from repro_mlir.runner.command import main

sys.exit(main())
