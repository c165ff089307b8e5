# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the matrix instructions of a GPU against the accumulation rule of its architecture's class (M3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from repro_mlir.base.numerics.formats import element_type, from_bits, to_bits
from repro_mlir.base.progress import Progress
from repro_mlir.certification.vectors import PRODUCTS, SIDE, make_vectors
from repro_mlir.compilation import gpu
from repro_mlir.compilation.assembler import assemble, find_assembler
from repro_mlir.reference.low_precision.accumulators import ACCUMULATORS, Fdpa, LateFdpa, accumulate
from repro_mlir.reference.low_precision.binary_formats import BF16, F8E4M3FN, F8E5M2, F16, TF32, BinaryFormat
from repro_mlir.runner.certificates import TENSOR_CORES, Certificate, matrix_instructions, unit_of
from repro_mlir.runner.device import Device
from repro_mlir.runner.execution import TargetCode, choose_architecture
from repro_mlir.runner.plan import read_plan
from repro_mlir.runner.tensor_cores import InstructionCase, Vectors, compare_tensor_cores

_FORMATS: dict[str, BinaryFormat] = {"f16": F16, "bf16": BF16, "tf32": TF32, "e4m3": F8E4M3FN, "e5m2": F8E5M2}
"""The formats, by PTX name."""

_DEPTHS = {"f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (32,), "e5m2": (32,)}

_FLOAT8 = ("e4m3", "e5m2")


@dataclass(frozen=True)
class MatrixInstruction:
    """The instruction mma.sync.aligned.m16n8k<depth>.row.col.<result>.<x>.<y>.<result>; `by` is its accumulation
    rule."""

    x: str
    y: str
    result: str
    depth: int
    by: Fdpa | LateFdpa


_PROGRAM = """
func.func @main(%x: tensor<{n}x{side}x{depth}x{x}>, %y: tensor<{n}x{side}x{depth}x{y}>,
    %c: tensor<{n}x{side}x{side}x{result}>) -> tensor<{n}x{side}x{side}x{result}>
    attributes {{repro.num_state = 0 : i64}} {{
  %r = repro.fold
    #repro.fdpa<terms = {terms}, fraction = {fraction}, round = {round}, floor = {floor}, late = {late}, start = init>
    maps [affine_map<(b, i, j, k) -> (b, i, k)>, affine_map<(b, i, j, k) -> (b, j, k)>,
          affine_map<(b, i, j, k) -> (b, i, j)>]
    iterators [parallel, parallel, parallel, reduction]
    ins(%x, %y : tensor<{n}x{side}x{depth}x{x}>, tensor<{n}x{side}x{depth}x{y}>)
    outs(%c : tensor<{n}x{side}x{side}x{result}>) {{
  ^bb0(%a: {x}, %b: {y}, %s: f32):
    {body}
    repro.yield %f : f32
  }} -> tensor<{n}x{side}x{side}x{result}>
  return %r : tensor<{n}x{side}x{side}x{result}>
}}
"""


def instructions_of(architecture: str) -> list[MatrixInstruction]:
    """Returns the matrix instructions that compiled code for an architecture may contain."""
    return [
        MatrixInstruction(x, y, result, depth, by)
        for result in ("f32", "f16")
        for x, depths in _DEPTHS.items()
        for y in (_FLOAT8 if x in _FLOAT8 else (x,))
        if (by := _rule(architecture, x, y, result))
        for depth in depths
        # Only architectures with bf16 have instructions for 16 elements along K.
        if depth != 16 or _rule(architecture, "bf16", "bf16", "f32")
    ]


def class_of(architecture: str, element: str) -> str | None:
    """(M3) Returns the accumulator class of `mma.sync` for an element type, which is named as in PTX or as in programs.
    None if the class is unknown."""
    unit = unit_of(architecture)
    return unit.float8 if element in _FLOAT8 or element.startswith("f8") else unit.name


def _rule(architecture: str, x: str, y: str, result: str) -> Fdpa | LateFdpa | None:
    name = class_of(architecture, x)
    by = ACCUMULATORS[name].get((_FORMATS[x].name, result)) if name else None
    # (M4) An instruction with two different f8 types does not follow a rule with late sums, so it has no rule here.
    if by is None or (isinstance(by, LateFdpa) and x != y):
        return None
    assert isinstance(by, Fdpa | LateFdpa)
    return by


def make_cases(architecture: str) -> Iterator[InstructionCase]:
    """Yields a test case with PRODUCTS * SIDE^2 results for each instruction that `instructions_of` returns."""
    for form in instructions_of(architecture):
        code = _compile(architecture, form)
        (opcode,) = matrix_instructions(code.ptx)
        vectors = make_vectors(form.x, form.y, form.result, form.depth)
        yield InstructionCase(opcode, code, vectors, expected_results(vectors, form))


def certify(device: Device) -> tuple[Certificate, list[str]]:
    """Compares the results of a GPU's matrix instructions with the accumulation rules of its class.

    Returns:
      The certificate, which lists the instructions whose results all follow the rule, and a message for each of the
      other instructions.
    Raises:
      ReproError: the class of the GPU is unknown, or its code cannot be compiled or run.
    """
    architecture = choose_architecture(gpu.architectures(), device.capability, "the compiler")
    unit = unit_of(architecture)
    with Progress(len(instructions_of(architecture)), f"comparing {device.name} with {unit.name}") as progress:
        return compare_tensor_cores(device, unit, make_cases(architecture), progress.advance)


def _type_of(element: str) -> str:
    """Returns the element type that a program has for a PTX type. Programs store tf32 values as f32."""
    return "f32" if element == "tf32" else _FORMATS[element].name


def _compile(architecture: str, form: MatrixInstruction) -> TargetCode:
    """Compiles code that computes each result with one instruction, which adds its products to an operand c."""
    inner = form.by.inner if isinstance(form.by, LateFdpa) else form.by
    types = _type_of(form.x), _type_of(form.y)
    factors = "%aw, %bw"
    lines = [f"%{name}w = arith.extf %{name} : {kind} to f32" for name, kind in zip("ab", types, strict=True)]
    if form.x == "tf32":
        factors, lines = "%a, %b", []
    lines.append(f"%f = math.fma {factors}, %s : f32")
    text = _PROGRAM.format(
        n=PRODUCTS,
        side=SIDE,
        depth=form.depth,
        x=types[0],
        y=types[1],
        result=form.result,
        body="\n    ".join(lines),
        terms=inner.terms,
        fraction=inner.fraction,
        round=inner.round,
        floor=inner.floor,
        late=str(isinstance(form.by, LateFdpa)).lower(),
    )
    made = gpu.compile(text, architecture + TENSOR_CORES)
    cubin = assemble(made.ptx, architecture) if find_assembler() else None
    plan = read_plan(made.plan, "gpu", architecture)
    return TargetCode(made.arch, cubin, made.ptx.encode(), plan, made.constants)


def expected_results(vectors: Vectors, form: MatrixInstruction) -> np.ndarray:
    """Returns the bits of the results that the accumulation rule defines."""
    result = element_type(form.result)
    want = np.empty(vectors.c.shape, vectors.c.dtype)
    formats = _FORMATS[form.x], _FORMATS[form.y]
    for i in range(len(want)):
        x, y = (
            from_bits(codes[i], element_type(_type_of(element))).astype(np.float32)
            for codes, element in ((vectors.x, form.x), (vectors.y, form.y))
        )
        c = from_bits(vectors.c[i], result).astype(np.float32)
        got = accumulate(x[:, np.newaxis], y[np.newaxis], c, form.by, formats)
        want[i] = to_bits(got, result)
    return want
