# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M4) Contractions by the instructions of a matrix unit have the bits of the rule, and of code without them."""

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
from support.matrix_instructions import CLASSES

CASES = {name: (product, operands) for name, product, operands in products()}


def opcodes(product: Product, arch: str) -> set[str]:
    """The matrix instructions of the code, by depth and element."""
    text = device_code.compile(product.program(), f"{arch}+tensor-cores").ptx
    found = {word for word in text.split() if word.startswith("mma.sync")}
    return {".".join((word.split(".")[3][5:], word.split(".")[7])) for word in found}


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.sampled(4)
def test_products_M4(name: str, arch: str) -> None:
    """Whether or not the rule is that of the unit."""
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
    ],
)
def test_which_instructions(arch: str, element: str, k: int, expected: set[str]) -> None:
    by = Accumulator.named(CLASSES[arch], element)
    product = Product(by, {"m": 20, "n": 20, "k": k}, (element, element, "f32"))
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
                {"late": True},
                {"chunk": 48},
                {"chunk": 16},
            )
        ),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("bf16", "f16", "f32")),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("f32", "f32", "f32")),
        Product(HOPPER, {"m": 64, "n": 64, "k": 64}, ("f8E4M3FN", "f8E4M3FN", "f32")),
    ],
    ids=str,
)
def test_other_rules_are_in_integers(product: Product) -> None:
    assert not opcodes(product, "sm_90")


def test_turing_has_no_bf16() -> None:
    assert "bf16" not in {element for element, _ in accumulators.CLASSES["turing"]}
    assert not opcodes(Product(AMPERE, {"m": 64, "n": 64, "k": 64}), "sm_75")


@pytest.mark.parametrize("kind", ["normal", "tiny", "special", "any-bits"])
@pytest.mark.parametrize("k", [1, 8, 9, 16, 24, 31, 32, 33, 41, 63, 72])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.sampled(4)
def test_ends_of_K_M1(arch: str, k: int, kind: str) -> None:
    """Zeros fill the last block; -0 stays -0, as no block has zeros alone."""
    by = dataclasses.replace(Accumulator.named(CLASSES[arch], "f16"), start="init" if k % 3 else "zero")
    product = Product(by, {"m": 19, "n": 70, "k": k}, ("f16", "f16", "f32"))
    assert opcodes(product, arch)
    device_kit.check(product.program(), product.operands(OPERANDS[kind], k), f"{arch}+tensor-cores")


@pytest.mark.parametrize("k", [1, 8, 17, 24, 32, 33, 40])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_negative_zeros_M4(arch: str, k: int) -> None:
    """A sum that is cut to -0 is not that of another block; init is -0."""
    by = Accumulator.named(CLASSES[arch], "bf16")
    product = Product(by, {"m": 3, "n": 5, "k": k})
    a, b = np.zeros((3, k), np.uint16), np.zeros((k, 5), np.uint16)
    a[:, k - 1], b[k - 1] = 0x9980, 0x1980  # -2^-76, 2^-76: their product is far below the least f32
    init = np.full((3, 5), 0x80000000, np.uint32).view(np.float32)
    device_kit.check(product.program(), (a, b, init), f"{arch}+tensor-cores")


@pytest.mark.parametrize("chunk", [32, 64, 128])
@pytest.mark.parametrize("k", [31, 32, 64, 95, 128, 200, 257, 512])
@pytest.mark.sampled(3)
def test_chunks_M4(chunk: int, k: int) -> None:
    product = Product(dataclasses.replace(HOPPER, chunk=chunk), {"m": 40, "n": 65, "k": k})
    assert opcodes(product, "sm_90")
    for kind in ("normal", "special", "tiny"):
        device_kit.check(product.program(), product.operands(OPERANDS[kind], k), "sm_90+tensor-cores")


@pytest.mark.parametrize("maps", LAYOUTS, ids="-".join)
@pytest.mark.parametrize("n", [37, 64])
@pytest.mark.sampled(2)
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
    """Blocks of 128 x 128 results, where there are enough of them."""
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


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.sampled(3)
def test_random_products_M4(seed: int) -> None:
    choose = random.Random(seed)
    product, kind = random_product(choose)
    arch = choose.choice(device_code.architectures())
    element = choose.choice(["f16", "bf16"]) if arch != "sm_75" else "f16"
    by = Accumulator.named(CLASSES[arch], element)
    start = choose.choice(["zero", "init"])
    chunk = choose.choice([0, 0, 32, 64, 96]) if start == "zero" else 0
    result = choose.choice(["f32", "f32", "f16", "bf16"])
    by = dataclasses.replace(by, start=start, chunk=chunk)
    product = dataclasses.replace(product, by=by, types=(element, element, result))
    inputs = product.operands(OPERANDS[kind], seed)
    device_kit.check(product.program(), inputs, f"{arch}+tensor-cores", order=choose.choice(["lockstep", "ascending"]))


@pytest.mark.parametrize("arch", device_code.architectures())
@pytest.mark.sampled(2)
def test_ptxas_takes_the_code(arch: str) -> None:
    """No kernel spills, the largest tiles and those with totals of chunks included."""
    modules = []
    for n, k, chunk in ((4096, 4096, 0), (4095, 4090, 0), (4096, 4096, 128), (20, 50, 32)):
        by = dataclasses.replace(Accumulator.named(CLASSES[arch], "f16"), chunk=chunk)
        for maps in (("mk", "kn", "mn"), ("mk", "nk", "mn")):
            product = Product(by, {"m": n, "n": n, "k": k}, ("f16", "f16", "f32"), maps)
            modules.append(device_code.compile(product.program(), f"{arch}+tensor-cores").ptx)
            assert "mma.sync" in modules[-1]
    assembling.check(modules, arch)


def test_another_class_gives_other_bits() -> None:
    """What a certificate is for: code for one class on devices of another."""
    product = Product(HOPPER, {"m": 64, "n": 64, "k": 64})
    operands = product.operands(OPERANDS["normal"], 1)
    with pytest.raises(kit.Mismatch):
        device_kit.check(product.program(), operands, "sm_90+tensor-cores", matrix_unit="ampere")
