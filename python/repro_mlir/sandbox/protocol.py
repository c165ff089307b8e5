# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The messages between this process and the server process (server.py)."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<QQQQ")
"""The header of a request: its size in bytes, and limits: processor seconds, memory bytes, bytes of result or file."""

ENDING = struct.Struct("<iQQ")
"""The header of an answer: exit status (negative for a signal), bytes of the answer, bytes of the last error output."""

OUT_OF_MEMORY = 3
"""The exit status of a child that ran out of memory."""
