# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(K4) Exact matrix products, computed as products of 8-bit digits, have the bits of the reference interpreter, for
every layout and ragged shape."""

from __future__ import annotations

import numpy as np
import pytest
from repro_mlir.compilation import gpu as device_code
from support import device_kit
from support.builder import Builder


def program(digits: int, maps: tuple[str, str, str], sizes: dict[str, int], t: str = "f32") -> str:
    """Returns an exact contraction with `digits` digits and index maps such as ("hik", "hkj", "hij"); `t` is the
    element type of the operands."""
    b, dims = Builder(), sorted(sizes)
    operands = [
        (b.argument([sizes[i] for i in indices], t), ", ".join(f"d{dims.index(i)}" for i in indices))
        for indices in maps
    ]
    extend, factors = "", "%x0, %x1"
    if t != "f32":
        extend = "".join(f"%w{i} = arith.extf %x{i} : {t} to f32\n    " for i in range(2))
        factors = "%w0, %w1"
    iterators = "".join("p" if i in maps[2] else "r" for i in dims)
    body = f"{extend}%r0 = math.fma {factors}, %a0 : f32"
    ordering = f"#repro.exact<digits = {digits}>"
    return b.program(*b.fold(ordering, iterators, operands[:2], operands[2:], body, ["f32"]))


def arrays(maps: tuple[str, str, str], sizes: dict[str, int]) -> list[np.ndarray]:
    random = np.random.default_rng(sum(sizes.values()))
    found = [random.standard_normal([sizes[i] for i in indices], np.float32) for indices in maps]
    for array in found[:2]:
        array *= np.exp2(random.integers(-60, 60, array.shape)).astype(np.float32)
    return found


def uses_matrices(code: str) -> bool:
    return "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32" in code


@pytest.mark.parametrize("digits", [2, 3])
@pytest.mark.parametrize(
    ("maps", "sizes"),
    [
        (("ik", "kj", "ij"), {"i": 64, "j": 64, "k": 64}),  # one full tile, whose K is a multiple of a slice
        (("ik", "jk", "ij"), {"i": 130, "j": 70, "k": 100}),
        (("ki", "kj", "ij"), {"i": 65, "j": 129, "k": 33}),
        (("ki", "jk", "ji"), {"i": 8, "j": 9, "k": 200}),
        (("hik", "hjk", "hij"), {"h": 3, "i": 20, "j": 30, "k": 17}),
        (("ihk", "jhk", "ihj"), {"h": 2, "i": 40, "j": 11, "k": 16}),  # attention heads
        (("ikl", "klj", "ij"), {"i": 12, "j": 66, "k": 5, "l": 13}),
        (("ik", "jlk", "ijl"), {"i": 10, "j": 3, "k": 40, "l": 4}),
    ],
)
@pytest.mark.diagonal
def test_layouts(digits: int, maps: tuple[str, str, str], sizes: dict[str, int]) -> None:
    text = program(digits, maps, sizes)
    assert uses_matrices(device_code.compile(text, "sm_80").ptx)
    inputs = arrays(maps, sizes)
    device_kit.check(text, inputs, "sm_80")
    device_kit.check(text, inputs, "sm_100", order="descending")


@pytest.mark.parametrize("digits", [2, 3])
def test_no_race(digits: int) -> None:
    maps, sizes = ("ik", "kj", "ij"), {"i": 70, "j": 40, "k": 200}
    device_kit.check(program(digits, maps, sizes), arrays(maps, sizes), "sm_80", checked=True)


@pytest.mark.parametrize("digits", [2, 3])
def test_special_values(digits: int) -> None:
    maps, sizes = ("ik", "kj", "ij"), {"i": 24, "j": 20, "k": 70}
    a, b, c = arrays(maps, sizes)
    a[3], b[:, 4] = 0.0, -0.0
    a[5] *= np.float32(1e-44) / np.abs(a[5]).max()  # subnormal, like its products
    b[:, 6] = np.finfo(np.float32).max
    a[7, 0], a[8, 1], b[2, 9] = np.inf, np.nan, -np.inf
    a[10] = np.float32(2) - np.float32(2**-23)  # rounds up to a power of two
    c[:] = -0.0
    device_kit.check(program(digits, maps, sizes), [a, b, c], "sm_80")


@pytest.mark.parametrize("digits", [2, 3])
def test_largest_sums(digits: int) -> None:
    """Uses the digits of largest magnitude (-128, and -63 for the first digit), and the largest K for which i32 sums of
    their products do not overflow."""
    maps, sizes = ("ik", "jk", "ij"), {"i": 8, "j": 8, "k": 1 << 15}
    value = np.float32(-{2: 0x3F80, 3: 0x3F8080}[digits] / 2 ** (8 * digits - 2))
    a, b, c = (np.full([sizes[i] for i in indices], value, np.float32) for indices in maps)
    text = program(digits, maps, sizes)
    assert uses_matrices(device_code.compile(text, "sm_80").ptx)
    device_kit.check(text, [a, b, c], "sm_80")


@pytest.mark.parametrize(
    ("arch", "sizes", "expected"),
    [
        ("sm_80", {"i": 8, "j": 8, "k": 1 << 15}, True),
        ("sm_75", {"i": 64, "j": 64, "k": 64}, False),
        ("sm_80", {"i": 7, "j": 64, "k": 64}, False),
        ("sm_80", {"i": 64, "j": 7, "k": 64}, False),
        ("sm_80", {"i": 8, "j": 8, "k": (1 << 15) + 1}, False),
    ],
)
def test_matrix_instructions_are_used_for_large_products(arch: str, sizes: dict[str, int], expected: bool) -> None:
    text = program(2, ("ik", "kj", "ij"), sizes)
    assert uses_matrices(device_code.compile(text, arch).ptx) == expected
