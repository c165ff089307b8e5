# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The matrix instructions of an architecture with what the rule of its class gives (M3), and a GPU beside them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..bundle.runner.certificates import TENSOR_CORES, Certificate, matrix_instructions, unit_of
from ..bundle.runner.device import Device
from ..bundle.runner.execution import TargetCode, choose_architecture
from ..bundle.runner.plan import read_plan
from ..bundle.runner.tensor_cores import Case, Vectors, compare_tensor_cores
from ..compilation import gpu
from ..compilation.assembler import assemble, find_assembler
from ..numerics.formats import canonical, element_type, from_bits
from ..progress import Progress
from ..reference.low_precision.accumulators import ACCUMULATORS, Fdpa, accumulate, named_accumulator
from ..reference.low_precision.binary_formats import BF16, F16, BinaryFormat
from .vectors import ELEMENTS, PRODUCTS, SIDE, make_vectors

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


def instructions_of(architecture: str) -> list[tuple[str, int]]:
    """The elements of the matrix instructions that code for an architecture has, and how many of K each takes."""
    elements = [name for name in ELEMENTS if (name, "f32") in ACCUMULATORS[unit_of(architecture).name]]
    # Those of 16 elements of K came with bf16.
    return [(element, depth) for element in elements for depth in ((8, 16) if "bf16" in elements else (8,))]


def make_cases(architecture: str) -> Iterator[Case]:
    """Each instruction of `instructions_of` with PRODUCTS * SIDE^2 results."""
    unit = unit_of(architecture)
    for element, depth in instructions_of(architecture):
        by = named_accumulator(unit.name, _FORMATS[element])
        assert isinstance(by, Fdpa) and (by.terms, by.fraction) == (unit.terms, unit.fraction)
        code = _compile(architecture, element, depth, by)
        (opcode,) = matrix_instructions(code.ptx)
        vectors = make_vectors(element, depth)
        yield Case(opcode, code, vectors, expected_results(vectors, element, by))


def certify(device: Device) -> Certificate:
    """Compares the matrix instructions of a GPU with the rule of its class.

    Raises:
      Differing: results are others.
      ReproError: no class is known for the GPU, or its code cannot be made or run.
    """
    architecture = choose_architecture(gpu.architectures(), device.capability, "the compiler")
    unit = unit_of(architecture)
    with Progress(len(instructions_of(architecture)), f"comparing {device.name} with {unit.name}") as progress:
        return compare_tensor_cores(device, unit, make_cases(architecture), progress.advance)


def _compile(architecture: str, element: str, depth: int, by: Fdpa) -> TargetCode:
    """Code in which each result is one instruction, from the value c on."""
    text = _PROGRAM.format(
        n=PRODUCTS, side=SIDE, depth=depth, element=element, terms=by.terms, fraction=by.fraction, floor=by.floor
    )
    made = gpu.compile(text, architecture + TENSOR_CORES)
    cubin = assemble(made.ptx, architecture) if find_assembler() else None
    plan = read_plan(made.plan, "gpu", architecture)
    return TargetCode(made.arch, cubin, made.ptx.encode(), plan, made.constants)


def expected_results(vectors: Vectors, element: str, by: Fdpa) -> np.ndarray:
    """The codes of what the rule gives."""
    kind = element_type(element)
    want = np.empty(vectors.c.shape, np.float32)
    for i in range(len(want)):
        x, y = (from_bits(array[i], kind).astype(np.float32) for array in (vectors.x, vectors.y))
        want[i] = accumulate(x[:, np.newaxis], y[np.newaxis], vectors.c[i].view(np.float32), by, _FORMATS[element])
    return canonical(want, _F32).view(np.uint32)
