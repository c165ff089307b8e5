# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Puts the modules of other tests that the fuzzers share on the path; imported before them."""

import sys
from pathlib import Path

_TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(_TESTS / "python" / name) for name in ("differential", "dialect", "runner")]
sys.path.insert(0, str(_TESTS / "Codegen" / "GPU"))
