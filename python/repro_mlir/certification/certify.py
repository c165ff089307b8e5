# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs each matrix instruction on a GPU and compares every result with the rule of the GPU's class (M3)."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..bundle.runner.certificates import (
    TENSOR_CORES,
    Certificate,
    Instruction,
    matrix_instructions,
    unit_of,
)
from ..bundle.runner.device import Device
from ..bundle.runner.execution import Execution, TargetCode, choose_architecture
from ..bundle.runner.plan import read_plan
from ..compilation import gpu
from ..compilation.assembler import assemble, find_assembler
from ..errors import ReproError
from ..numerics.digest import blake3_of
from ..numerics.formats import canonical, element_type, from_bits
from ..progress import Progress
from ..reference.low_precision.accumulators import ACCUMULATORS, Fdpa, accumulate, named_accumulator
from ..reference.low_precision.binary_formats import BF16, F16, BinaryFormat
from .vectors import ELEMENTS, PRODUCTS, SIDE, Vectors, make_vectors

_FORMATS: dict[str, BinaryFormat] = {"f16": F16, "bf16": BF16}
_F32 = element_type("f32")

_PROGRAM = """
func.func @main(%x: tensor<{n}x{side}x{depth}x{element}>, %y: tensor<{n}x{side}x{depth}x{element}>,
    %c: tensor<{n}x{side}x{side}xf32>) -> tensor<{n}x{side}x{side}xf32> attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold
    #repro.fdpa<terms = {terms}, fraction = {fraction}, round = rz_f32, floor = {floor}, start = init>
    maps [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>,
          affine_map<(b, i, j, k) -> (b, i, j)>]
    iterators [parallel, parallel, parallel, reduction]
    ins(%x, %y : tensor<{n}x{side}x{depth}x{element}>, tensor<{n}x{side}x{depth}x{element}>)
    outs(%c : tensor<{n}x{side}x{side}xf32>) {{
  ^bb0(%a: {element}, %b: {element}, %s: f32):
    %aw = arith.extf %a : {element} to f32
    %bw = arith.extf %b : {element} to f32
    %f = math.fma %aw, %bw, %s : f32
    repro.yield %f : f32
  }} -> tensor<{n}x{side}x{side}xf32>
  return %r : tensor<{n}x{side}x{side}xf32>
}}
"""


class Differing(ReproError):
    """Results that are not those of the class; tells how many, of which kind, and the first in hexadecimal."""


def certify(device: Device) -> Certificate:
    """Compares the matrix instructions of a GPU with the rule: PRODUCTS * SIDE^2 results of each.

    Raises:
      Differing: results are others.
      ReproError: no class is known for the GPU, or its code cannot be made or run.
    """
    architecture = choose_architecture(gpu.architectures(), device.capability, "the compiler")
    unit = unit_of(architecture)
    elements = [name for name in ELEMENTS if (name, "f32") in ACCUMULATORS[unit.name]]
    # Those of 16 elements of K came with bf16.
    depths = (8, 16) if "bf16" in elements else (8,)
    images: set[str] = set()
    found = []
    with Progress(len(elements) * len(depths), f"comparing {device.name} with {unit.name}") as progress:
        for element in elements:
            by = named_accumulator(unit.name, _FORMATS[element])
            assert isinstance(by, Fdpa) and (by.terms, by.fraction) == (unit.terms, unit.fraction)
            for depth in depths:
                code = _compile(architecture, element, depth, by)
                (opcode,) = matrix_instructions(code.ptx)
                vectors = make_vectors(element, depth)
                want = expected_results(vectors, element, by)
                # What the driver assembles may be other machine code.
                for image in ("cubin", "PTX"):
                    got, ran = _run(device, code, vectors, image == "cubin")
                    images.add(ran)
                    if ran == image:
                        _compare(f"{device.name}, {image}", opcode, unit.name, vectors, got, want)
                given = b"".join(array.tobytes() for array in (vectors.x, vectors.y, vectors.c))
                digests = blake3_of(given).hex(), blake3_of(want.tobytes()).hex()
                found.append(Instruction(opcode, want.size, *digests))
                progress.advance(opcode)
    return Certificate(device.name, device.driver.identity(), unit, tuple(sorted(images)), tuple(found))


def _compile(architecture: str, element: str, depth: int, by: Fdpa) -> TargetCode:
    """Code in which each result is one instruction, from the value c on."""
    text = _PROGRAM.format(
        n=PRODUCTS, side=SIDE, depth=depth, element=element, terms=by.terms, fraction=by.fraction, floor=by.floor
    )
    made = gpu.compile(text, architecture + TENSOR_CORES)
    cubin = assemble(made.ptx, architecture) if find_assembler() else None
    plan = read_plan(made.plan, "gpu", architecture)
    return TargetCode(made.arch, cubin, made.ptx.encode(), plan, made.constants)


def _run(device: Device, code: TargetCode, vectors: Vectors, use_cubin: bool) -> tuple[np.ndarray, str]:
    """The codes of the results, and which image ran."""
    with Execution(device, code, use_cubin=use_cubin, certifying=True) as execution:
        for i, array in enumerate((vectors.x, vectors.y, vectors.c)):
            execution.write("input", i, array)
        execution.start()
        execution.finish()
        return execution.read("output", 0).view(np.uint32), execution.image


def expected_results(vectors: Vectors, element: str, by: Fdpa) -> np.ndarray:
    """The codes of what the rule gives."""
    kind = element_type(element)
    want = np.empty(vectors.c.shape, np.float32)
    for i in range(len(want)):
        x, y = (from_bits(array[i], kind).astype(np.float32) for array in (vectors.x, vectors.y))
        want[i] = accumulate(x[:, np.newaxis], y[np.newaxis], vectors.c[i].view(np.float32), by, _FORMATS[element])
    return canonical(want, _F32).view(np.uint32)


def _compare(where: str, opcode: str, unit: str, vectors: Vectors, got: np.ndarray, want: np.ndarray) -> None:
    wrong = np.argwhere(got != want)
    if not len(wrong):
        return
    kinds = Counter(vectors.kinds[product] for product, _, _ in wrong)
    product, row, column = (int(place) for place in wrong[0])

    def in_hex(codes: np.ndarray) -> str:
        return " ".join(f"{int(code):0{2 * codes.itemsize}x}" for code in codes)

    raise Differing(
        f"{where}: {len(wrong):,} of {want.size:,} results of {opcode} are not those of {unit} "
        f"({', '.join(f'{count:,} {name}' for name, count in kinds.items())}); the first: "
        f"a = {in_hex(vectors.x[product, row])}, b = {in_hex(vectors.y[product, column])}, "
        f"c = {int(vectors.c[product, row, column]):08x}, expected {int(want[product, row, column]):08x}, "
        f"got {int(got[product, row, column]):08x}"
    )
