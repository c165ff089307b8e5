# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs matrix instructions on a GPU and compares every result with what the class of the GPU gives (M3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.bundle.runner.certificates import IMAGES, Certificate, Instruction, Unit
from repro_mlir.bundle.runner.device import Device, ImageRejected
from repro_mlir.bundle.runner.execution import Execution, TargetCode


@dataclass(frozen=True)
class Vectors:
    """Operands of products of matrices, as codes.

    Attributes:
      x: rows, of shape [products, rows, K].
      y: columns, of shape [products, columns, K].
      c: to which a product is added, codes of f32 or f16 of shape [products, rows, columns].
      kinds: the name of the kind of each product.
    """

    x: np.ndarray
    y: np.ndarray
    c: np.ndarray
    kinds: list[str]


@dataclass(frozen=True)
class Case:
    """An instruction.

    Attributes:
      opcode: in PTX.
      code: of a program of x, y and c, each of whose results is one instruction.
      expected: codes of the results, of the shape of c.
    """

    opcode: str
    code: TargetCode
    vectors: Vectors
    expected: np.ndarray


def compare_tensor_cores(
    device: Device, unit: Unit, cases: Iterable[Case], compared: Callable[[str], None] = lambda opcode: None
) -> tuple[Certificate, list[str]]:
    """What of a GPU is known afterwards.

    Args:
      unit: the class that the results are expected to have.
      cases: the instructions, of as many results as a certificate needs.
      compared: is told each opcode.
    Returns:
      A certificate of the instructions whose results are all equal; and of each other one a line: that the driver takes
      no code of it, or how many results differ, of which kind, and the first in hexadecimal.
    Raises:
      ReproError: the code cannot be run, or no certificate can say which driver it is of.
    """
    driver = device.driver.identity()
    instructions, differing = [], []
    for case in cases:
        vectors = case.vectors
        images, differences, rejected = [], [], ""
        # What the driver assembles may be other machine code.
        for image in IMAGES:
            try:
                got, ran = _run(device, case.code, vectors, image == "cubin")
            except ImageRejected as error:
                rejected = f"{case.opcode} was not compared: {error}"
                continue
            if ran != image:
                continue
            images.append(image)
            if found := _difference(f"{device.name}, {image}", case, unit, got):
                differences.append(found)
        if differences or not images:
            differing.append(differences[0] if differences else rejected)
        else:
            given = b"".join(array.tobytes() for array in (vectors.x, vectors.y, vectors.c))
            digests = blake3_of(given).hex(), blake3_of(case.expected.tobytes()).hex()
            instructions.append(Instruction(case.opcode, tuple(images), case.expected.size, *digests))
        compared(case.opcode)
    return Certificate(device.name, driver, unit, tuple(instructions)), differing


def _run(device: Device, code: TargetCode, vectors: Vectors, use_cubin: bool) -> tuple[np.ndarray, str]:
    """The codes of the results, and which image ran."""
    with Execution(device, code, use_cubin=use_cubin, certifying=True) as execution:
        for i, array in enumerate((vectors.x, vectors.y, vectors.c)):
            execution.write("input", i, array)
        execution.start()
        execution.finish()
        return execution.read("output", 0).view(vectors.c.dtype), execution.image


def _difference(where: str, case: Case, unit: Unit, got: np.ndarray) -> str | None:
    want, vectors = case.expected, case.vectors
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return None
    kinds = Counter(vectors.kinds[product] for product, _, _ in wrong)
    product, row, column = (int(place) for place in wrong[0])
    at = product, row, slice(column, column + 1)

    def in_hex(codes: np.ndarray) -> str:
        return " ".join(f"{int(code):0{2 * codes.itemsize}x}" for code in codes)

    return (
        f"{where}: {len(wrong):,} of {want.size:,} results of {case.opcode} are not those of {unit.name} "
        f"({', '.join(f'{count:,} {name}' for name, count in kinds.items())}); the first: "
        f"a = {in_hex(vectors.x[product, row])}, b = {in_hex(vectors.y[product, column])}, "
        f"c = {in_hex(vectors.c[at])}, expected {in_hex(want[at])}, got {in_hex(got[at])}"
    )
