# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(V2) The caller's floating-point environment (rounding mode and flushing of subnormals) changes no bit of the
interpreter, of hashes, or of compiled code."""

from __future__ import annotations

import functools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
import repro_mlir
import torch
from repro_mlir import ReproError
from repro_mlir.base.numerics import hashing
from repro_mlir.base.numerics.environment import deviation
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.arrays import as_array
from repro_mlir.compilation import cpu, gpu
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter, evaluate_operation
from repro_mlir.reference.stored import read_program
from repro_mlir.runner.initial import centred_uniform
from repro_mlir.verification.elements import first_difference
from support import catalogue, device_kit, kit
from support.float_environments import ENVIRONMENTS

everywhere = pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)


def cases() -> list[catalogue.Case]:
    """Returns cases of the catalogue that cover float operations, functions, conversions and folds."""
    wanted = ("binary-", "fma-", "unary-", "truncf-", "-from-i64", "exp-", "log-f32", "cbrt-bf16", "pow-f32", "of-bits")
    chosen = [case for case in catalogue.cases() if any(part in case.name for part in wanted)]
    folds = [case for case in catalogue.cases() if case.name.startswith(("row-fold", "matmul", "contraction", "exact"))]
    return [*chosen[::4], *folds[::6]]


@functools.cache
def interpreted() -> list[tuple[catalogue.Case, bytes, list[bytes]]]:
    """Returns cases, their stored programs, and their results in the default environment."""
    stored = [(case, to_bytes(case.program)) for case in cases()]
    return [(case, data, results(data, case)) for case, data in stored]


def results(data: bytes, case: catalogue.Case) -> list[bytes]:
    return [value.tobytes() for value in Interpreter(data).run(*case.inputs)]


@everywhere
def test_V2_interpreter(environment: Callable) -> None:
    for case, data, want in interpreted():
        with environment():
            got = results(data, case)
        assert got == want, case.name


def test_V2_the_environment_matters() -> None:
    """Shows why the other tests are needed: the environment changes NumPy's results."""
    tiny, third = np.array([1e-40], np.float32), np.array([3], np.float32)
    with ENVIRONMENTS["flush"]():
        assert (tiny + tiny)[0] == 0
    with ENVIRONMENTS["up"]():
        assert (np.float32(1) / third)[0] > Fraction(1, 3)


@everywhere
def test_V2_one_operator(environment: Callable) -> None:
    """Runs a single operator, as the referee of a dispute does."""
    text = (
        "func.func @main(%a: tensor<3xbf16>) -> tensor<3xbf16> attributes {repro.num_state = 0 : i64} {\n"
        "  %e = tensor.empty() : tensor<3xbf16>\n  %c = arith.constant 1.0e-39 : f32\n"
        "  %r = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],"
        ' iterator_types = ["parallel"]} ins(%a : tensor<3xbf16>) outs(%e : tensor<3xbf16>) {\n'
        "  ^bb0(%x: bf16, %o: bf16):\n    %w = arith.extf %x : bf16 to f32\n    %s = arith.addf %w, %c : f32\n"
        "    %p = arith.mulf %s, %s : f32\n    %q = arith.subf %p, %w : f32\n    %r = arith.truncf %q : f32 to bf16\n"
        "    linalg.yield %r : bf16\n  } -> tensor<3xbf16>\n"
        "  return %r : tensor<3xbf16>\n}"
    )
    data = to_bytes(text)
    bits, held = np.array([0x0001, 0x3F81, 0x8003], np.uint16), np.array([2.0**-133, 1.0, -(2.0**-132)], np.float32)

    def run() -> list[bytes]:
        program = read_program(data)
        operations = {op.name: op for op in program.body.operations}
        empty, constant = operations["tensor.empty"], operations["arith.constant"]
        values = Interpreter(program).run(bits)
        env = {program.body.arguments[0]: held}
        for op in (empty, constant):
            env.update(zip(op.results, evaluate_operation(op, env), strict=True))
        values += evaluate_operation(operations["linalg.generic"], env)
        return [value.tobytes() for value in values]

    want = run()
    with environment():
        assert run() == want


@everywhere
def test_V2_hashes_and_reports(environment: Callable) -> None:
    random = np.random.default_rng(0)
    tensors = []
    for element in ("f64", "f32", "f16", "bf16", "f8E4M3FN", "f8E5M2"):
        kind = TensorType("x", element, (4096,))
        tensors.append((random.integers(0, 256, 4096 * kind.dtype.itemsize, np.uint8).view(kind.dtype), element))
    tensors.append((np.array([1e-40, 2.0, np.nan], np.float32), "bf16"))
    tensors[-1][0][0] = 2.0**-133

    def run() -> list[object]:
        found: list[object] = [hashing.tensor_hash(array, element) for array, element in tensors]
        for array, element in tensors[:-1]:
            other = array.copy()
            other[::7] = array[0]
            found.append(str(first_difference(array, other, TensorType("x", element, array.shape))))
        return found

    want = run()
    with environment():
        assert run() == want


@everywhere
def test_V2_generated_values(environment: Callable) -> None:
    """Covers learning rate schedules, initial parameters, random scales and Python numbers."""
    scale = np.float32(2.0**-127)

    def run() -> list[object]:
        schedule = dict(peak=3e-4, warmup=7, total=100, floor=1e-40)
        model = repro_mlir.initialize(torch.nn.Linear(5, 3), seed=3)
        numbers = [as_array(x, TensorType("x", "f32", ()), "input").tobytes() for x in (0.1, -0.3, 1e-40, 2.5e-310)]
        drawn = centred_uniform((300,), 1, 2, scale).tobytes()
        rates = [repro_mlir.cosine_with_warmup(step, **schedule) for step in range(0, 101, 9)]
        return [model.weight.detach().numpy().tobytes(), rates, numbers, drawn]

    want = run()
    with environment():
        assert run() == want


PROGRAM = """
func.func @main(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf16>) attributes {repro.num_state = 0 : i64} {
  %small = arith.constant 1.0e-39 : f32
  %third = arith.constant 0.333333343 : f32
  %scale = arith.mulf %small, %third : f32
  %wide = arith.constant 2.9e-8 : f64
  %narrow = arith.truncf %wide : f64 to f16
  %e = tensor.empty() : tensor<9xf32>
  %f = tensor.empty() : tensor<9xf16>
  %r, %h = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%x : tensor<9xf32>) outs(%e, %f : tensor<9xf32>, tensor<9xf16>) {
  ^bb0(%a: f32, %o: f32, %p: f16):
    %s = arith.addf %a, %scale : f32
    %t = repro.exp %s : f32
    %k = arith.constant 1.0e-41 : f32
    %l = arith.constant 3.0 : f32
    %m = arith.divf %k, %l : f32
    %u = arith.addf %t, %m : f32
    linalg.yield %u, %narrow : f32, f16
  } -> (tensor<9xf32>, tensor<9xf16>)
  return %r, %h : tensor<9xf32>, tensor<9xf16>
}
"""


@everywhere
def test_V2_compiler(environment: Callable) -> None:
    """Checks that constants are folded to the same values and that the compiled code is identical byte by byte."""

    def run() -> list[object]:
        text = repro_mlir.program.canonicalize(PROGRAM)
        code = gpu.compile(text, "sm_90")
        objects = [cpu.compile(text, level, jobs=2) for level in ("x86-64-v2", "x86-64-v4", "aarch64")]
        return [text, *objects, code.ptx, code.constants]

    want = run()
    with environment():
        assert run() == want


@everywhere
def test_V2_targets(environment: Callable) -> None:
    x = np.array([0.0, 1e-40, -1e-39, 1.0, -2.0, 3e-45, 0.1, np.inf, np.nan], np.float32)
    text = repro_mlir.program.canonicalize(PROGRAM)
    want = kit.reference(text, [x])
    with environment():
        kit.check(text, [x], want=want)
        device_kit.check(text, [x], "sm_90", want)


@everywhere
def test_V2_capture_refuses(environment: Callable) -> None:
    with (
        environment(),
        pytest.raises(ReproError, match=r"\(V2\) capture expects the default floating-point environment"),
    ):
        repro_mlir.capture(torch.nn.Linear(2, 2), torch.zeros(1, 2))
    assert deviation() is None
