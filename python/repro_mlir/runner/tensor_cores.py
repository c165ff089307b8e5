# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs matrix instructions on a GPU and compares every result with that of the GPU's accumulator class (M3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.digest import blake3_of
from repro_mlir.runner.certificates import IMAGES, Certificate, ComparedInstruction, Unit
from repro_mlir.runner.device import Device, ImageRejected
from repro_mlir.runner.execution import Execution, TargetCode


@dataclass(frozen=True)
class Vectors:
    """Operands of matrix products, as integers with the bits of the floats.

    Attributes:
      x: the left factors, of shape [products, rows, K].
      y: the right factors, of shape [products, columns, K].
      c: what is added to the products, f32 or f16, of shape [products, rows, columns].
      kinds: for each product, the name of the kind of test data that it has, such as "normal".
    """

    x: np.ndarray
    y: np.ndarray
    c: np.ndarray
    kinds: list[str]


@dataclass(frozen=True)
class InstructionCase:
    """A test of one matrix instruction.

    Attributes:
      opcode: the opcode in PTX.
      code: code with the inputs x, y and c, which computes each result with one instruction.
      vectors: the operands.
      expected: the bits of the expected results, in the shape of c.
    """

    opcode: str
    code: TargetCode
    vectors: Vectors
    expected: np.ndarray


def compare_tensor_cores(
    device: Device, unit: Unit, cases: Iterable[InstructionCase], compared: Callable[[str], None] = lambda opcode: None
) -> tuple[Certificate, list[str]]:
    """Runs the cases on a GPU and compares their results.

    Args:
      unit: the accumulator class whose results are expected.
      cases: the instructions, each with at least the number of results that a certificate requires.
      compared: a function that is called with each opcode after its comparison.
    Returns:
      A certificate for the instructions whose results are all as expected, and a line for each other instruction. The
      line says that the driver accepts no code for the instruction, or states the number and kinds of the wrong
      results, and the first wrong result in hexadecimal.
    Raises:
      ReproError: the code cannot run, or the driver's identity for the certificate cannot be found.
    """
    driver = device.driver.identity()
    instructions, differing = [], []
    for case in cases:
        vectors = case.vectors
        images, differences, rejected = [], [], ""
        # Runs both the cubin and the PTX, because the driver may assemble the PTX to machine code that differs from the
        # cubin.
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
            instructions.append(ComparedInstruction(case.opcode, tuple(images), case.expected.size, *digests))
        compared(case.opcode)
    return Certificate(device.name, driver, unit, tuple(instructions)), differing


def _run(device: Device, code: TargetCode, vectors: Vectors, use_cubin: bool) -> tuple[np.ndarray, str]:
    """Returns the bits of the results, and which image has run: "cubin" or "PTX"."""
    with Execution(device, code, use_cubin=use_cubin, certifying=True) as execution:
        for i, array in enumerate((vectors.x, vectors.y, vectors.c)):
            execution.write("input", i, array)
        execution.start()
        execution.finish()
        return execution.read("output", 0).view(vectors.c.dtype), execution.image


def _difference(where: str, case: InstructionCase, unit: Unit, got: np.ndarray) -> str | None:
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
