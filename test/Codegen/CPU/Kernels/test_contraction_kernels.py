# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compares the bits of contractions, which kernels compute in register tiles and in the order of (F1) and (F3), with
those of the reference interpreter."""

from __future__ import annotations

import pytest
from kernel_cases import BF16_FMA, contraction, matmul
from kernel_runner import RUNNABLE


@pytest.mark.parametrize("k", [1, 3, 511, 512, 513, 1300])
@pytest.mark.parametrize("a", ["mk", "km"])
@pytest.mark.parametrize("b", ["kn", "nk"])
@pytest.mark.diagonal
def test_depths_K1_F3(k: int, a: str, b: str) -> None:
    matmul(21, 37, k, a, b).check()


@pytest.mark.parametrize(
    "mn", [(1, 1), (1, 100), (100, 1), (2, 64), (7, 16), (8, 32), (9, 33), (13, 48), (70, 47), (300, 290)]
)
@pytest.mark.parametrize("layout", [("mk", "kn", "mn"), ("mk", "nk", "mn"), ("km", "kn", "nm"), ("mk", "nk", "nm")])
@pytest.mark.diagonal
def test_tiles_and_edges_K1(mn: tuple[int, int], layout: tuple[str, str, str]) -> None:
    m, n = mn
    matmul(m, n, 19, *layout).check()


def test_large_strides_are_packed_K1() -> None:
    for layout in (("mk", "kn"), ("km", "kn"), ("km", "nk")):
        matmul(150, 400, 600, *layout).check(levels=["v4", "v3"], special=False)


@pytest.mark.parametrize("layout", [("mk", "kn"), ("km", "nk")])
@pytest.mark.parametrize("size", [(540, 300, 130), (13, 2100, 520)])
def test_blocks_parts_and_strips_K1(layout: tuple[str, str], size: tuple[int, int, int]) -> None:
    """Uses more rows than one block has, a K that is longer than one K-block, and more columns than one strip has."""
    matmul(*size, *layout).check(levels=["v4", "v3"], special=False)


@pytest.mark.parametrize(
    ("m", "n", "k", "layout"),
    [
        (1, 9000, 530, ("mk", "kn")),
        (1, 64, 1027, ("mk", "kn")),
        (5, 4203, 519, ("km", "kn")),
        (12, 700, 520, ("mk", "kn")),
        (3, 130, 513, ("mk", "kn", "nm")),
    ],
)
def test_few_rows_read_columns_in_long_streams_K1(m: int, n: int, k: int, layout: tuple[str, ...]) -> None:
    """Tests more columns than one strip has; chunks and K-blocks with remainders; and rows whose last vector is full or
    masked."""
    matmul(m, n, k, *layout).check()


@pytest.mark.parametrize("b", ["kn", "nk"])
def test_parts_on_all_levels_F1(b: str) -> None:
    """Tests f64, and a chunk that is longer than one K-block at any vector width."""
    maps = ["(m, n, k) -> (m, k)", f"(m, n, k) -> ({b[0]}, {b[1]})", "(m, n, k) -> (m, n)"]
    size = {"k": 2100, "n": 37}
    case = contraction(maps, "ppr", ["21x2100xf32", f"{size[b[0]]}x{size[b[1]]}xf32", "21x37xf32"], chunk=2048)
    case.check(levels=RUNNABLE, special=False)
    matmul(30, 64, 600, b=b, kind="f64").check(levels=RUNNABLE, special=False)


def test_long_neighbourhoods_K2() -> None:
    """Tests a K that is longer than the table of element offsets."""
    maps = ["(o, i, n, h, w) -> (n, o, h, w)", "(o, i, n, h, w) -> (n, i, h, w)", "(o, i, n, h, w) -> (o, i)"]
    case = contraction(maps, "pprrr", ["34x7x25x20xf32", "34x9x25x20xf32", "7x9xf32"])
    case.check(levels=["v4", "v3"], special=False)


@pytest.mark.parametrize("kind", ["f64", "bf16"])
def test_other_types_F7(kind: str) -> None:
    body = BF16_FMA if kind == "bf16" else None
    size = {"m": 11, "k": 600, "n": 35}
    for b, output in (("kn", "mn"), ("nk", "mn"), ("kn", "nm")):
        maps = ["(m, n, k) -> (m, k)", f"(m, n, k) -> ({b[0]}, {b[1]})", f"(m, n, k) -> ({output[0]}, {output[1]})"]
        types = [f"{size[x[0]]}x{size[x[1]]}x{kind}" for x in ("mk", b, output)]
        contraction(maps, "ppr", types, body).check(special=False)


# The cases differ in where the last K-block of a packed row ends: within a vector, within a cache line, or at the end
# of both.
@pytest.mark.parametrize(("n", "k"), [(37, 530), (270, 72), (270, 126), (270, 512), (270, 575)])
@pytest.mark.diagonal(k=[530, 126])
def test_fused_producers_K1(n: int, k: int) -> None:
    body = """^bb0(%x: f32, %s: f32, %y: f32, %w: f32, %acc: f32):
  %z = arith.constant 0.0 : f32
  %a = arith.mulf %x, %s : f32
  %p = arith.maximumf %a, %z : f32
  %q = arith.subf %y, %w : f32
  %r = math.fma %p, %q, %acc : f32
  repro.yield %r : f32"""
    for a, b in (("m, k", "k, n"), ("k, m", "n, k")):
        size = {"m": 21, "n": n, "k": k}
        types = ["x".join(str(size[d]) for d in o.split(", ")) + "xf32" for o in (a, "m", b, "n", "m, n")]
        maps = [f"(m, n, k) -> ({o})" for o in (a, "m", b, "n", "m, n")]
        contraction(maps, "ppr", types, body).check()


@pytest.mark.parametrize("layout", ["bhtd", "bthd"])
def test_attention_batches_K1(layout: str) -> None:
    size = {"b": 2, "h": 3, "t": 40, "s": 33, "d": 24}
    query, key = layout, layout.replace("t", "s")
    for operands in ((query, key, "bhts"), ("bhts", key, query), ("bhts", query, key)):
        reduced = ({"t", "s", "d"} - set(operands[2])).pop()
        kept = "".join(d for d in "bhtsd" if d != reduced)
        head = "(" + ", ".join((*kept, reduced)) + ")"
        maps = [f"{head} -> ({', '.join(o)})" for o in operands]
        types = ["x".join(str(size[d]) for d in o) + "xf32" for o in operands]
        contraction(maps, "ppppr", types).check()


CONVOLUTION = ["(n, o, h, w, c, y, x) -> (n, c, h * {s} + y, w * {s} + x)", "(n, o, h, w, c, y, x) -> (o, c, y, x)"]


@pytest.mark.parametrize(
    ("n", "o", "c", "size", "kernel", "stride"),
    [
        (2, 16, 1, 8, 3, 1),
        (3, 20, 5, 14, 3, 1),
        (1, 33, 70, 7, 3, 1),
        (2, 9, 4, 28, 5, 2),
        (1, 64, 3, 40, 1, 1),
        # In these two cases, consecutive channels are 4 KiB and 1 KiB apart in memory.
        (2, 40, 6, 32, 3, 1),
        (3, 64, 60, 16, 3, 2),
    ],
)
def test_convolution_K2(n: int, o: int, c: int, size: int, kernel: int, stride: int) -> None:
    image = (size - 1) * stride + kernel
    maps = [m.format(s=stride) for m in CONVOLUTION] + ["(n, o, h, w, c, y, x) -> (n, o, h, w)"]
    types = [f"{n}x{c}x{image}x{image}xf32", f"{o}x{c}x{kernel}x{kernel}xf32", f"{n}x{o}x{size}x{size}xf32"]
    contraction(maps, "pppprrr", types).check()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("size", "stride"), [(14, 1), (12, 2)])
def test_pixels_of_several_images_K2(kind: str, size: int, stride: int) -> None:
    """A tile of pixels spans two images, the pixels fill more than one block of rows, and K has several chunks and
    K-blocks."""
    image = (size - 1) * stride + 3
    maps = [m.format(s=stride) for m in CONVOLUTION] + ["(n, o, h, w, c, y, x) -> (n, o, h, w)"]
    types = [f"4x60x{image}x{image}x{kind}", f"33x60x3x3x{kind}", f"4x33x{size}x{size}x{kind}"]
    contraction(maps, "pppprrr", types).check(levels=["v4", "v3"], special=False)


@pytest.mark.parametrize(("n", "o", "c", "size"), [(2, 16, 3, 8), (3, 20, 5, 14), (2, 33, 17, 7)])
def test_convolution_weight_gradient_K2(n: int, o: int, c: int, size: int) -> None:
    head = "(o, c, y, x, n, h, w)"
    maps = [f"{head} -> (n, c, h + y, w + x)", f"{head} -> (n, o, h, w)", f"{head} -> (o, c, y, x)"]
    types = [f"{n}x{c}x{size + 2}x{size + 2}xf32", f"{n}x{o}x{size}x{size}xf32", f"{o}x{c}x3x3xf32"]
    contraction(maps, "pppprrr", types).check()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("size", [3, 7, 14, 19, 32])
@pytest.mark.diagonal
def test_results_of_a_stride_phase_K2(kind: str, size: int) -> None:
    """Writes every second pixel of every second row of a larger image; the other pixels must not change."""
    maps = [m.format(s=1) for m in CONVOLUTION] + ["(n, o, h, w, c, y, x) -> (n, o, h, w)"]
    types = [f"2x5x{size + 1}x{size}x{kind}", f"37x5x2x1x{kind}", f"2x37x{size}x{size}x{kind}"]
    case = contraction(maps, "pppprrr", types)
    row = 2 * size
    case.layouts = {2: ((37 * 2 * size * row, 2 * size * row, 2 * row, 2), row + 1)}
    case.check()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(("c", "o", "kernel"), [(5, 37, 3), (70, 40, 3), (3, 66, 5), (40, 7, 2)])
@pytest.mark.diagonal
@pytest.mark.exhaustive("70-40-3-f64")
def test_flipped_kernel_K2(kind: str, c: int, o: int, kernel: int) -> None:
    """Reads the weight's taps in descending order, with input and output channels exchanged, as code for an input
    gradient does if it makes no copy of the weight."""
    head = "(n, o, h, w, c, y, x)"
    last = kernel - 1
    for size in (6, 33):
        image = size + kernel - 1
        maps = [
            f"{head} -> (n, c, h + y, w + x)",
            f"{head} -> (c, o, {last} - y, {last} - x)",
            f"{head} -> (y, x)",
            f"{head} -> (n, o, h, w)",
        ]
        body = f"""^bb0(%x: {kind}, %y: {kind}, %shape: {kind}, %acc: {kind}):
  %r = math.fma %x, %y, %acc : {kind}
  repro.yield %r : {kind}"""
        shapes = [f"2x{c}x{image}x{image}", f"{c}x{o}x{kernel}x{kernel}", f"{kernel}x{kernel}", f"2x{o}x{size}x{size}"]
        contraction(maps, "pppprrr", [f"{s}x{kind}" for s in shapes], body).check(special=size == 6)
