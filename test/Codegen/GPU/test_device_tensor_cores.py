# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Contractions that use matrix instructions have the bits that (M4) defines. Code without such instructions has
the same bits."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from repro_mlir import Accumulator
from repro_mlir.compilation import gpu as device_code
from repro_mlir.program import accumulators
from support import assembling, device_kit, kit
from support.accumulated import AMPERE, HOPPER, LAYOUTS, OPERANDS, Product, products, random_product
from support.matrix_instructions import CLASSES, EIGHTS, NAMES

CASES = {name: (product, operands) for name, product, operands in products()}
WITH_EIGHTS = ("sm_89", "sm_90", "sm_100")
"""Architectures for which (M3) defines an accumulator class of f8; the class of sm_120 is unknown."""


def named(arch: str, element: str, result: str = "f32") -> Accumulator:
    """(M3) Returns the accumulator of mma.sync on an architecture for an element type."""
    unit = CLASSES[arch]
    return Accumulator.named(EIGHTS[unit] if element in NAMES.values() else unit, element, result)


def opcodes(product: Product, arch: str) -> set[str]:
    """Returns the matrix instructions in the product's code, such as "k16.f16": depth, element types (one if both are
    equal), and the result type if it is f16."""
    text = device_code.compile(product.program(), f"{arch}+tensor-cores").ptx
    found = set()
    for word in text.split():
        if word.startswith("mma.sync"):
            shape, _, _, result, x, y = word.split(".")[3:9]
            parts = [shape.removeprefix("m16n8"), x, *([y] if y != x else []), *([result] if result == "f16" else [])]
            found.add(".".join(parts))
    return found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.diagonal("name")
def test_products_M4(name: str, arch: str) -> None:
    """Covers accumulators that the tensor cores of the architecture implement, and others."""
    product, operands = CASES[name]
    device_kit.check(product.program(), operands, f"{arch}+tensor-cores")


@pytest.mark.parametrize(
    ("arch", "element", "k", "expected"),
    [
        ("sm_75", "f16", 64, {"k8.f16"}),
        ("sm_80", "f16", 64, {"k16.f16"}),
        ("sm_80", "f16", 8, {"k8.f16"}),
        ("sm_80", "bf16", 41, {"k16.bf16"}),
        ("sm_80", "bf16", 40, {"k16.bf16", "k8.bf16"}),
        ("sm_89", "bf16", 47, {"k16.bf16"}),
        ("sm_90", "bf16", 33, {"k16.bf16", "k8.bf16"}),
        ("sm_100", "f16", 1, {"k8.f16"}),
        ("sm_80", "f32", 64, {"k8.tf32"}),
        ("sm_80", "f32", 3, {"k4.tf32"}),
        ("sm_90", "f32", 20, {"k8.tf32", "k4.tf32"}),
        ("sm_120", "f32", 13, {"k8.tf32"}),
        *((arch, "f8E4M3FN", k, {"k32.e4m3"}) for arch in WITH_EIGHTS for k in (1, 70)),
        *((arch, "f8E5M2", k, {"k32.e5m2"}) for arch in WITH_EIGHTS for k in (16, 100)),
    ],
)
def test_chosen_instructions(arch: str, element: str, k: int, expected: set[str]) -> None:
    product = Product(named(arch, element), {"m": 20, "n": 20, "k": k}, (element, element, "f32"))
    assert opcodes(product, arch) == expected


@pytest.mark.parametrize(
    ("arch", "element", "expected"),
    [
        ("sm_75", "f16", {"k8.f16.f16"}),
        ("sm_80", "f16", {"k16.f16.f16", "k8.f16.f16"}),
        ("sm_120", "f16", {"k16.f16.f16", "k8.f16.f16"}),
        *((arch, "f8E4M3FN", {"k32.e4m3.f16"}) for arch in WITH_EIGHTS),
    ],
)
def test_chosen_instructions_with_sums_in_f16(arch: str, element: str, expected: set[str]) -> None:
    product = Product(named(arch, element, "f16"), {"m": 20, "n": 20, "k": 40}, (element, element, "f32"))
    assert opcodes(product, arch) == expected


@pytest.mark.parametrize(
    "product",
    [
        Product(AMPERE, {"m": 64, "n": 64, "k": 64}),
        *(
            Product(dataclasses.replace(HOPPER, **change), {"m": 64, "n": 64, "k": 64})
            for change in (
                {"fraction": 24},
                {"terms": 8},
                {"floor": -132},
                {"round": "rne_f32"},
                {"round": "rz_e8m13"},
                {"round": "rne_f16"},
                {"late": True},
            )
        ),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("bf16", "f16", "f32")),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("f32", "f32", "f32")),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("f8E4M3FN", "f8E4M3FN", "f32")),
        # wgmma has another accumulator class than mma.sync, so mma.sync cannot compute this product.
        Product(Accumulator.named("hopper", "f8E4M3FN"), {"m": 64, "n": 64, "k": 64}, ("f8E4M3FN", "f8E4M3FN", "f32")),
        # mma.sync of this class converts f8 to f16. The conversion changes the exponents of e4m3's subnormals, so
        # products of both f8 types do not follow the rule.
        Product(named("sm_90", "f8E5M2"), {"m": 64, "n": 64, "k": 64}, ("f8E4M3FN", "f8E5M2", "f32")),
    ],
    ids=str,
)
def test_other_rules_are_in_integers(product: Product) -> None:
    assert not opcodes(product, "sm_90")


def test_chunks_that_end_inside_of_an_instruction() -> None:
    product = Product(dataclasses.replace(AMPERE, chunk=24), {"m": 20, "n": 20, "k": 100})
    assert not opcodes(product, "sm_80")
    device_kit.check(product.program(), product.operands(OPERANDS["normal"], 1), "sm_80+tensor-cores")


def test_sm_120_has_f8_of_its_own() -> None:
    for by in (named("sm_100", "f8E4M3FN"), named("sm_89", "f8E4M3FN"), Accumulator.named("blackwell", "f8E4M3FN")):
        assert not opcodes(Product(by, {"m": 64, "n": 64, "k": 64}, ("f8E4M3FN", "f8E4M3FN", "f32")), "sm_120")


def test_turing_has_no_bf16() -> None:
    assert "bf16" not in {element for element, _ in accumulators.CLASSES["turing"]}
    assert not opcodes(Product(AMPERE, {"m": 64, "n": 64, "k": 64}), "sm_75")


@pytest.mark.parametrize("kind", ["normal", "tiny", "special", "any-bits"])
@pytest.mark.parametrize("k", [1, 8, 9, 16, 24, 31, 32, 33, 41, 63, 72])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.diagonal
def test_ends_of_K_M1(arch: str, k: int, kind: str) -> None:
    """Pads the last block with zeros. A sum of -0 stays -0, because padding never forms a block that consists only of
    zeros."""
    by = dataclasses.replace(Accumulator.named(CLASSES[arch], "f16"), start="init" if k % 3 else "zero")
    product = Product(by, {"m": 19, "n": 70, "k": k}, ("f16", "f16", "f32"))
    assert opcodes(product, arch)
    device_kit.check(product.program(), product.operands(OPERANDS[kind], k), f"{arch}+tensor-cores")


@pytest.mark.parametrize("k", [1, 8, 17, 24, 32, 33, 40])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_negative_zeros_M4(arch: str, k: int) -> None:
    """A block sum that is truncated to -0 must not be added to the sum of another block; init is -0."""
    by = Accumulator.named(CLASSES[arch], "bf16")
    product = Product(by, {"m": 3, "n": 5, "k": k})
    a, b = np.zeros((3, k), np.uint16), np.zeros((k, 5), np.uint16)
    a[:, k - 1], b[k - 1] = 0x9980, 0x1980  # -2^-76, 2^-76: their product is far below the least f32
    init = np.full((3, 5), 0x80000000, np.uint32).view(np.float32)
    device_kit.check(product.program(), (a, b, init), f"{arch}+tensor-cores")


@pytest.mark.parametrize("chunk", [16, 32, 48, 64, 128])
@pytest.mark.parametrize("k", [31, 32, 64, 95, 128, 200, 257, 512])
@pytest.mark.diagonal
def test_chunks_M4(chunk: int, k: int) -> None:
    product = Product(dataclasses.replace(HOPPER, chunk=chunk), {"m": 40, "n": 65, "k": k})
    assert opcodes(product, "sm_90")
    for kind in ("normal", "special", "tiny"):
        device_kit.check(product.program(), product.operands(OPERANDS[kind], k), "sm_90+tensor-cores")


@pytest.mark.parametrize(
    ("arch", "element", "result", "chunk"),
    [
        ("sm_80", "f32", "f32", 8),
        ("sm_90", "f32", "f32", 24),
        ("sm_90", "f32", "f32", 64),
        ("sm_89", "f8E4M3FN", "f32", 96),
        ("sm_90", "f8E5M2", "f32", 128),
        ("sm_75", "f16", "f16", 16),
        ("sm_90", "f16", "f16", 48),
        ("sm_89", "f8E5M2", "f16", 32),
    ],
)
@pytest.mark.parametrize("k", [33, 130, 200])
@pytest.mark.diagonal
def test_chunks_of_other_types_M4(arch: str, element: str, result: str, chunk: int, k: int) -> None:
    by = dataclasses.replace(named(arch, element, result), chunk=chunk)
    product = Product(by, {"m": 40, "n": 65, "k": k}, (element, element, "f32"))
    assert opcodes(product, arch)
    for kind in ("tf32" if element == "f32" else "normal", "special"):
        device_kit.check(product.program(), product.operands(OPERANDS[kind], k), f"{arch}+tensor-cores")


@pytest.mark.parametrize("kind", ["tf32", "normal", "special", "tiny", "any-bits"])
@pytest.mark.parametrize("k", [1, 4, 5, 8, 13, 16, 17, 20, 31, 40])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.diagonal
def test_tf32_M4(arch: str, k: int, kind: str) -> None:
    """Tests f32 operands that are not all tf32 values, and the same operands truncated to tf32."""
    by = dataclasses.replace(named(arch, "f32"), start="init" if k % 3 else "zero")
    product = Product(by, {"m": 19, "n": 70, "k": k}, ("f32", "f32", "f32"))
    assert opcodes(product, arch)
    x, y, init = product.operands(OPERANDS[kind], k)
    device_kit.check(product.program(), (x, y, init), f"{arch}+tensor-cores")
    cut = [(each.view(np.uint32) & 0xFFFFE000).view(np.float32) for each in (x, y)]
    device_kit.check(product.program(), (*cut, init), f"{arch}+tensor-cores")


@pytest.mark.parametrize("start", ["zero", "init"])
@pytest.mark.parametrize("maps", [("mk", "kn", "mn"), ("km", "nk", "nm")], ids="-".join)
def test_tiles_that_tf32_lacks_M4(maps: tuple[str, str, str], start: str) -> None:
    """One element that is not a tf32 value excludes one row of tiles from matrix instructions. The other tiles use
    matrix instructions: an emulator of another accumulator class changes their bits."""
    by = dataclasses.replace(named("sm_90", "f32"), start=start)
    product = Product(by, {"m": 150, "n": 70, "k": 40}, ("f32", "f32", "f32"), maps)
    x, y, init = product.operands(OPERANDS["tf32"], 1)
    row = x[70] if maps[0] == "mk" else x[:, 70]
    row[39] = np.float32(1 + 2**-23)
    program = product.program()
    want = kit.reference(program, (x, y, init))
    device_kit.check(program, (x, y, init), "sm_90+tensor-cores", want, checked=True)
    assert isinstance(want, list)
    other = device_kit.run(program, (x, y, init), "sm_90+tensor-cores", matrix_unit="ampere")
    assert isinstance(other, list)
    differ = (other[0] != want[0]).any(axis=1 if maps[2] == "mn" else 0)
    assert not differ[64:128].any() and differ[:64].any() and differ[128:].any()


@pytest.mark.parametrize("kind", ["normal", "wide", "tiny", "sparse", "special", "any-bits"])
@pytest.mark.parametrize("k", [1, 15, 16, 17, 32, 33, 47, 48, 49, 64, 65, 97])
@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize(
    ("arch", "x", "y"),
    [
        *((arch, each, each) for arch in WITH_EIGHTS for each in ("f8E4M3FN", "f8E5M2")),
        ("sm_89", "f8E4M3FN", "f8E5M2"),
        ("sm_89", "f8E5M2", "f8E4M3FN"),
    ],
)
@pytest.mark.diagonal
def test_f8_M4(arch: str, x: str, y: str, result: str, k: int, kind: str) -> None:
    by = dataclasses.replace(named(arch, x, result), start="init" if k % 3 else "zero")
    product = Product(by, {"m": 19, "n": 70, "k": k}, (x, y, result))
    assert opcodes(product, arch)
    device_kit.check(product.program(), product.operands(OPERANDS[kind], k), f"{arch}+tensor-cores")


@pytest.mark.parametrize("kind", ["normal", "wide", "tiny", "large", "cancelling", "special", "any-bits"])
@pytest.mark.parametrize("k", [1, 7, 8, 9, 16, 24, 31, 32, 33, 41])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.diagonal
def test_sums_in_f16_M4(arch: str, k: int, kind: str) -> None:
    start = "init" if k % 3 else "zero"
    by = dataclasses.replace(named(arch, "f16", "f16"), start=start)
    product = Product(by, {"m": 19, "n": 70, "k": k}, ("f16", "f16", "f16" if start == "init" else "f32"))
    assert opcodes(product, arch)
    device_kit.check(product.program(), product.operands(OPERANDS[kind], k), f"{arch}+tensor-cores")


@pytest.mark.parametrize("k", [1, 9, 16, 17, 32, 33, 48, 49])
@pytest.mark.parametrize(
    ("arch", "element", "codes"),
    [
        ("sm_75", "f16", (0x8010, 0x0001)),
        ("sm_90", "f16", (0x8010, 0x0001)),
        ("sm_89", "f8E5M2", (0x81, 0x01)),
        ("sm_90", "f8E5M2", (0x81, 0x01)),
    ],
)
@pytest.mark.diagonal
def test_negative_zeros_in_f16_M1(arch: str, element: str, codes: tuple[int, int], k: int) -> None:
    """A result that is rounded to -0 stays -0: no block that consists only of zeros is added to it."""
    by = dataclasses.replace(named(arch, element, "f16"), start="init")
    product = Product(by, {"m": 3, "n": 5, "k": k}, (element, element, "f16"))
    x, y, init = (np.zeros_like(each) for each in product.operands(OPERANDS["normal"], 1))
    x[:, k - 1], y[k - 1] = codes
    want = kit.reference(product.program(), (x, y, init))
    if not by.late:
        assert isinstance(want, list) and np.all(want[0] == 0x8000)
    device_kit.check(product.program(), (x, y, init), f"{arch}+tensor-cores", want)


@pytest.mark.parametrize("maps", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("n", [37, 64])
@pytest.mark.diagonal
def test_layouts_M4(maps: tuple[str, str, str], n: int) -> None:
    sizes = {"b": 3, "m": 72, "n": n, "k": 48, "l": 3}
    product = Product(HOPPER, {letter: sizes[letter] for letter in set("".join(maps))}, ("f16", "f16", "f32"), maps)
    assert opcodes(product, "sm_100")
    for order in ("lockstep", "descending"):
        device_kit.check(product.program(), product.operands(OPERANDS["wide"], n), "sm_100+tensor-cores", order=order)


@pytest.mark.parametrize("result", ["f16", "bf16", "f32"])
@pytest.mark.parametrize("start", ["zero", "init"])
def test_types_of_results_M4(result: str, start: str) -> None:
    product = Product(dataclasses.replace(AMPERE, start=start), {"m": 33, "n": 9, "k": 50}, ("bf16", "bf16", result))
    assert opcodes(product, "sm_86")
    device_kit.check(product.program(), product.operands(OPERANDS["normal"], 1), "sm_86+tensor-cores")


def test_large_tiles_M4() -> None:
    """Tests thread blocks that compute 128 x 128 results, which are used only if there are enough results."""
    product = Product(HOPPER, {"b": 64, "m": 97, "n": 99, "k": 70}, maps=("bmk", "bkn", "bmn"))
    operands = product.operands(OPERANDS["normal"], 1)
    program = product.program()
    assert device_code.compile(program, "sm_90+tensor-cores").ptx.count("mma.sync") > 64
    want = kit.compiled(program, operands, kit.configurations()[-1], runs=1)
    device_kit.check(program, operands, "sm_90+tensor-cores", want, checked=True)


@pytest.mark.parametrize(("k", "chunk"), [(32, 0), (70, 0), (200, 64)])
def test_no_race(k: int, chunk: int) -> None:
    product = Product(dataclasses.replace(HOPPER, chunk=chunk), {"m": 70, "n": 40, "k": k})
    assert opcodes(product, "sm_90")
    operands = product.operands(OPERANDS["normal"], 1)
    device_kit.check(product.program(), operands, "sm_90+tensor-cores", checked=True)


@pytest.mark.parametrize("seed", range(120))
@pytest.mark.diagonal(seed=range(16))
def test_random_products_M4(seed: int) -> None:
    choose = random.Random(seed)
    product, kind = random_product(choose)
    arch = choose.choice(device_code.architectures())
    elements = ["f16", *(["bf16", "f32"] if arch != "sm_75" else []), *(NAMES.values() if arch in WITH_EIGHTS else [])]
    element = choose.choice(elements)
    sums = choose.choice(["f32", "f16"]) if element in ("f16", *NAMES.values()) else "f32"
    by = named(arch, element, sums)
    start = choose.choice(["zero", "init"])
    step = 32 if element in NAMES.values() else 8
    chunk = step * choose.choice([0, 0, 1, 2, 4, 6, 12]) if start == "zero" else 0
    chunk -= chunk % (by.terms * (1 + by.late))
    result = choose.choice(["f32", "f32", "f16", "bf16"]) if start == "zero" or sums == "f32" else "f16"
    by = dataclasses.replace(by, start=start, chunk=chunk)
    product = dataclasses.replace(product, by=by, types=(element, element, result))
    inputs = product.operands(OPERANDS[kind], seed)
    device_kit.check(product.program(), inputs, f"{arch}+tensor-cores", order=choose.choice(["lockstep", "ascending"]))


def kinds_of(arch: str) -> list[tuple[str, str]]:
    """Returns the pairs of an element type and an accumulator type that the matrix instructions of the architecture
    support."""
    kinds = [("f16", "f32"), ("f16", "f16")]
    kinds += [("f32", "f32")] if arch != "sm_75" else []
    return kinds + [("f8E4M3FN", result) for result in ("f32", "f16") if arch in WITH_EIGHTS]


@pytest.mark.parametrize("arch", device_code.architectures())
@pytest.mark.diagonal(arch=["sm_90"])
@pytest.mark.exhaustive
def test_ptxas_takes_the_code(arch: str) -> None:
    """Checks that no kernel spills registers, for the largest tiles and for tiles that keep totals between chunks."""
    modules = []
    for element, sums in kinds_of(arch):
        for n, k, chunk in ((4096, 4096, 0), (4095, 4090, 0), (4096, 4096, 128), (20, 50, 32)):
            by = dataclasses.replace(named(arch, element, sums), chunk=chunk)
            for maps in (("mk", "kn", "mn"), ("mk", "nk", "mn")):
                product = Product(by, {"m": n, "n": n, "k": k}, (element, element, "f32"), maps)
                modules.append(device_code.compile(product.program(), f"{arch}+tensor-cores").ptx)
                assert "mma.sync" in modules[-1]
    assembling.check(modules, arch)


def test_another_class_gives_other_bits() -> None:
    """Shows why certificates are needed: code for one accumulator class returns other bits on a device of another
    class."""
    product = Product(HOPPER, {"m": 64, "n": 64, "k": 64})
    operands = product.operands(OPERANDS["normal"], 1)
    with pytest.raises(kit.Mismatch):
        device_kit.check(product.program(), operands, "sm_90+tensor-cores", matrix_unit="ampere")
