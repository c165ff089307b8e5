# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The entry point of `python -m repro_mlir`."""

import sys

from repro_mlir.cli.main import main

sys.exit(main())
