# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Rewrites text of the newer MLIR versions that frameworks bundle, so that LLVM 22 parses it."""

import re

_HEX_BOOLEANS = re.compile(r'dense<"0x([0-9A-Fa-f]+)"> : tensor<((?:[0-9]+x)+)i1>')


def for_llvm_22(text: str) -> str:
    """Returns `text` with boolean constants in the format that LLVM 22 parses."""
    return _HEX_BOOLEANS.sub(_pack_booleans, text)


def _pack_booleans(match: re.Match[str]) -> str:
    """Packs i1 elements: newer MLIR prints one byte per element, whereas LLVM 22 reads one bit."""
    data = bytes.fromhex(match[1])
    packed = bytearray((len(data) + 7) // 8)
    for index, byte in enumerate(data):
        packed[index // 8] |= (byte & 1) << (index % 8)
    return f'dense<"0x{packed.hex().upper()}"> : tensor<{match[2]}i1>'
