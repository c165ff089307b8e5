# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V4) NaNs have the canonical bits on every target."""

import numpy as np
import pytest
from repro_mlir import compile
from repro_mlir.program import read_signature
from repro_mlir.program.canonical import to_bytes
from support.builder import Builder
from support.kit import check

# Entries: a float type, the integer type of its width, the bits of the canonical NaN, and those of infinity.
FORMATS = [
    ("f64", "i64", 0x7FF8000000000000, 0x7FF0000000000000),
    ("f32", "i32", 0x7FC00000, 0x7F800000),
    ("bf16", "i16", 0x7FC0, 0x7F80),
    ("f16", "i16", 0x7E00, 0x7C00),
    ("f8E4M3FN", "i8", 0x7F, 0x7E),
    ("f8E5M2", "i8", 0x7E, 0x7C),
]


def patterns(integer: str, infinity: int) -> np.ndarray:
    """Returns all bit patterns of a format of up to 16 bits. For a wider format, returns infinities of both signs, and
    NaNs of both signs whose payloads have a single bit or are random."""
    width = int(integer[1:])
    if width <= 16:
        return np.arange(1 << width, dtype=np.uint64).astype(f"u{width // 8}").view(f"i{width // 8}")
    mantissa = (infinity & -infinity).bit_length() - 1
    payloads = [1 << i for i in range(mantissa)]
    payloads += [int(n) | 1 for n in np.random.default_rng(1).integers(0, 1 << mantissa, 100)]
    bits = [sign << (width - 1) | infinity | payload for sign in (0, 1) for payload in [0, *payloads]]
    return np.array(bits, f"u{width // 8}").view(f"i{width // 8}")


@pytest.mark.parametrize(("kind", "integer", "canonical", "infinity"), FORMATS, ids=[entry[0] for entry in FORMATS])
def test_V4_bits_of_every_nan(kind: str, integer: str, canonical: int, infinity: int) -> None:
    bits = patterns(integer, infinity)
    b = Builder()
    x = b.argument(bits.shape, integer)
    # The NaN is made by a bitcast, and its sign is changed before its bits are read.
    body = (
        f"%f = arith.bitcast %x0 : {integer} to {kind}\n%g = arith.negf %f : {kind}\n"
        f"%u = arith.cmpf uno, %g, %g : {kind}\n%c = arith.constant {canonical} : {integer}\n"
        f"%b = arith.bitcast %g : {kind} to {integer}\n%r0 = arith.select %u, %c, %b : {integer}"
    )
    program = b.program(b.generic(bits.shape, [(x, "d0")], body, integer)[0])
    check(program, [bits])
    sign = np.array(np.iinfo(bits.dtype).min, bits.dtype)
    magnitudes = bits & ~sign
    want = np.where(magnitudes > infinity, np.array(canonical, bits.dtype), bits ^ sign)
    for target in ("reference", "cpu", "ptx-emulator"):
        _, outputs = compile(read_signature(to_bytes(program)), target, 1)({}, bits)
        np.testing.assert_array_equal(outputs["result 0"], want, err_msg=target)
