# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Test cases for a GPU's tensor cores: their instructions with the expected results, and matrix products to time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from repro_mlir.base.numerics.formats import element_type, round_to_format, to_bits
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.initial import centred_uniform
from repro_mlir.runner.plan import read_plan, write_plan
from repro_mlir.runner.tensor_cores import InstructionCase, Vectors

_SEED = 21


@dataclass(frozen=True)
class Product:
    """A matrix product that uses the accumulator class of the architecture (M4).

    Attributes:
      element: element type of both operands; tf32 means f32 values that tf32 can represent.
      m, n, k: rows, columns, and products per result.
      layout: a letter for each operand: N if it is stored as it is multiplied, T if it is stored transposed.
      chunk: the number of products per accumulator chain; 0 to add all products in one chain.
      sums: the type of the sums, f16 or f32.
    """

    element: str
    m: int
    n: int
    k: int
    layout: str = "NN"
    chunk: int = 0
    sums: str = "f32"

    @property
    def name(self) -> str:
        """A unique name."""
        chunk = f", chunks of {self.chunk}" if self.chunk else ""
        sums = ", sums in f16" if self.sums == "f16" else ""
        return f"{self.element} {self.m}x{self.n}x{self.k} {self.layout}{chunk}{sums}"

    @property
    def flops(self) -> float:
        """The number of floating-point operations in the matrix product."""
        return 2.0 * self.m * self.n * self.k

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The shapes of the operands in memory."""
        left, right = (self.m, self.k), (self.k, self.n)
        return left[:: -1 if self.layout[0] == "T" else 1], right[:: -1 if self.layout[1] == "T" else 1]

    def operands(self) -> list[np.ndarray]:
        """Returns the operands as arrays that the program accepts: uniform in [-0.5, 0.5), then rounded to the element
        type. Every machine gets the same operands."""
        drawn = [centred_uniform(shape, _SEED, site, np.float32(1)) for site, shape in enumerate(self.shapes)]
        if self.element == "tf32":
            return [(x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in drawn]
        kind = element_type(self.element)
        rounded = [round_to_format(x, kind) for x in drawn]
        return [x.astype(np.float16) if self.element == "f16" else to_bits(x, kind) for x in rounded]


def products(tiny: bool) -> list[Product]:
    """Returns the matrix products to time: large ones, those of GPT-2 124M with 4096 tokens, and some whose sizes are
    not multiples of a tile."""
    if tiny:
        return [
            Product("bf16", 70, 40, 100),
            Product("f16", 40, 70, 64, "NT", chunk=32),
            Product("tf32", 40, 70, 64),
            Product("f8E4M3FN", 40, 70, 64, "NT"),
            Product("f16", 40, 70, 64, "NT", sums="f16"),
        ]
    return [
        Product("bf16", 4096, 4096, 4096, "NT"),
        Product("bf16", 4096, 4096, 4096, "NN"),
        Product("bf16", 4096, 4096, 4096, "TN"),
        Product("f16", 4096, 4096, 4096, "NT"),
        Product("bf16", 4096, 4096, 4096, "NT", chunk=128),
        Product("bf16", 4096, 3072, 768, "NT"),
        Product("bf16", 4096, 768, 3072, "NT"),
        Product("bf16", 4095, 4097, 4091, "NN"),
        Product("bf16", 16, 4096, 4096, "NT"),
        Product("f16", 4096, 4096, 4096, "NT", sums="f16"),
        Product("tf32", 4096, 4096, 4096, "NT"),
        Product("tf32", 4096, 4096, 4096, "NN"),
        Product("f8E4M3FN", 4096, 4096, 4096, "NT"),
        Product("f8E5M2", 4096, 4096, 4096, "NT", sums="f16"),
    ]


def save_cases(folder: Path, architecture: str, cases: Iterable[InstructionCase]) -> None:
    """Writes the test cases of an architecture's matrix instructions to a new folder inside `folder`, named after the
    architecture."""
    own = folder / architecture
    own.mkdir(parents=True)
    facts = []
    for i, case in enumerate(cases):
        code, vectors = case.code, case.vectors
        for suffix, data in (("ptx", code.ptx), ("plan", write_plan(code.plan)), ("cubin", code.cubin)):
            if data is not None:
                (own / f"{i}.{suffix}").write_bytes(data)
        np.savez_compressed(own / f"{i}.npz", x=vectors.x, y=vectors.y, c=vectors.c, expected=case.expected)
        facts.append({"opcode": case.opcode, "code": code.architecture, "kinds": vectors.kinds})
    (own / "cases.json").write_text(json.dumps(facts))


def load_cases(folder: Path, architecture: str) -> Iterator[InstructionCase]:
    """Yields the test cases that `save_cases` has written."""
    own = folder / architecture
    for i, facts in enumerate(json.loads((own / "cases.json").read_text())):
        cubin = own / f"{i}.cubin"
        plan = read_plan((own / f"{i}.plan").read_bytes(), "gpu", str(own))
        machine_code = cubin.read_bytes() if cubin.exists() else None
        code = TargetCode(facts["code"], machine_code, (own / f"{i}.ptx").read_bytes(), plan, b"")
        with np.load(own / f"{i}.npz") as arrays:
            vectors = Vectors(arrays["x"], arrays["y"], arrays["c"], facts["kinds"])
            yield InstructionCase(facts["opcode"], code, vectors, arrays["expected"])
