# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Counts the arithmetic operations of instructions, per element."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from repro_mlir.roofline.cpu.assembly import Block

OPERATIONS = ("floating_point", "integer", "special")
"""The counted types of operations. Additions, products, minima and maxima count as `floating_point` or, on integer
vectors, as `integer`; a multiply-add counts twice. Divisions, square roots and their estimates count as `special`.
Masked-off lanes count too.
"""

_MNEMONIC = re.compile(r"(?:\{\w+\}\s+)?(\w+)")
_VECTOR = re.compile(r"%([xyz])mm\d")
_BITS = {"x": 128, "y": 256, "z": 512}

# x86-64: the type, the number of operations per element, and a pattern of the mnemonic whose groups encode the element
# type.
_X86 = tuple(
    (kind, count, re.compile(pattern))
    for kind, count, pattern in (
        ("floating_point", 2, r"vfn?m(?:add|sub|addsub|subadd)(?:132|213|231)([sp])([shd])"),
        ("floating_point", 1, r"v?h?(?:add|sub|addsub|mul|min|max)([sp])([shd])"),
        ("floating_point", 4, r"v(dp)bf16p(s)"),
        ("special", 1, r"v?(?:div|sqrt|rcp|rsqrt|rcp14|rsqrt14)([sp])([shd])"),
        ("integer", 8, r"v(p)dpb[us][us](d)s?"),
        ("integer", 4, r"v(p)dpw[us][us](d)s?"),
        ("integer", 3, r"v?(p)maddubs(w)"),
        ("integer", 3, r"v?(p)maddw(d)"),
        ("integer", 1, r"v?(p)mulu?d(q)"),
        ("integer", 1, r"v?(p)mulh(?:u|rs)?(w)"),
        ("integer", 1, r"v?(p)h?(?:add|sub|mull|abs)(?:u?s)?([bwdq])"),
        ("integer", 1, r"v?(p)(?:min|max)[us]([bwdq])"),
    )
)
_X86_BITS = {"b": 8, "w": 16, "h": 16, "d": 32, "s": 32, "q": 64}

# AArch64: the type, the number of operations per element of the first operand, and a pattern of the mnemonic.
_AARCH64 = tuple(
    (kind, count, re.compile(pattern))
    for kind, count, pattern in (
        ("floating_point", 2, r"f(?:ml[as]|n?m(?:add|sub)|(?:rec|rsqrt)ps)"),
        ("floating_point", 1, r"f(?:add|sub|n?mul|mulx|min|max|minnm|maxnm|abd|addp|minp|maxp|minnmp|maxnmp)"),
        ("special", 1, r"f(?:div|sqrt|recpe|rsqrte)"),
        ("integer", 8, r"(?:[us]|us|su)dot"),
        ("integer", 2, r"ml[as]|[us]ml[as]l2?|[us]qdml[as]l2?"),
        (
            "integer",
            1,
            r"add|sub|mul|neg|abs|addp|[us](?:mull|addl|subl|addw|subw)2?|[us](?:min|max|abd|h?add|qadd|qsub)",
        ),
    )
)
_LANES = re.compile(r"v\d+\.(\d+)([bhsd])\b")
_SCALAR = re.compile(r"\S+\s+([hsd])\d+,")


def operations_of(blocks: Iterable[Block]) -> dict[str, int]:
    """Returns the number of operations in all runs of the blocks, by type (`OPERATIONS`)."""
    found = dict.fromkeys(OPERATIONS, 0)
    for block in blocks:
        for instruction in block.instructions:
            kind, count = _arithmetic(instruction)
            if count:
                found[kind] += block.runs * count
    return found


@lru_cache(maxsize=1 << 14)
def _arithmetic(instruction: str) -> tuple[str, int]:
    """Returns the type and the number of operations of an x86-64 or AArch64 instruction."""
    named = _MNEMONIC.match(instruction)
    mnemonic = named.group(1) if named else ""
    if vectors := _VECTOR.findall(instruction):
        width = max(_BITS[each] for each in vectors)
        for kind, count, pattern in _X86:
            if found := pattern.fullmatch(mnemonic):
                is_scalar, bits = found.group(1) == "s", _X86_BITS[found.group(2)]
                # The letter d means 64 bits for floating-point numbers and 32 bits for integers.
                bits = 64 if kind != "integer" and found.group(2) == "d" else bits
                return kind, count if is_scalar else count * width // bits
        return "", 0
    lanes, scalar = _LANES.search(instruction), _SCALAR.match(instruction)
    if lanes or scalar:
        for kind, count, pattern in _AARCH64:
            if pattern.fullmatch(mnemonic):
                return kind, count * (int(lanes.group(1)) if lanes and not scalar else 1)
    return "", 0
