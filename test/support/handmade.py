# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A program with handwritten device code, so that the runner can be tested without the compiler."""

from pathlib import Path

import numpy as np
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.program import Program
from repro_mlir.program.canonical import to_bytes
from repro_mlir.runner.execution import TargetCode
from repro_mlir.runner.plan import Kernel, Launch, Plan

TEXT = """
#all = affine_map<(i, j) -> (i, j)>
#none = affine_map<(i, j) -> ()>
module {
func.func @main(%w: tensor<2x3xf32>, %n: tensor<i64>, %lr: tensor<f32>, %x: tensor<2x3xf32>, %k: tensor<i64>)
    -> (tensor<2x3xf32>, tensor<i64>, tensor<f32>) attributes {repro.num_state = 2 : i64} {
  %one = arith.constant 1 : i64
  %zero = arith.constant 0 : index
  %to = tensor.empty() : tensor<2x3xf32>
  %w1 = linalg.generic {indexing_maps = [#all, #none, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%w, %lr, %x : tensor<2x3xf32>, tensor<f32>, tensor<2x3xf32>) outs(%to : tensor<2x3xf32>) {
    ^bb0(%a: f32, %r: f32, %b: f32, %o: f32):
      %p = arith.mulf %r, %b : f32
      %q = arith.addf %a, %p : f32
      linalg.yield %q : f32
  } -> tensor<2x3xf32>
  %n0 = tensor.extract %n[] : tensor<i64>
  %n1 = arith.addi %n0, %one : i64
  %n2 = tensor.from_elements %n1 : tensor<i64>
  %k0 = tensor.extract %k[] : tensor<i64>
  %k1 = arith.index_cast %k0 : i64 to index
  %l = tensor.extract %x[%zero, %k1] : tensor<2x3xf32>
  %loss = tensor.from_elements %l : tensor<f32>
  return %w1, %n2, %loss : tensor<2x3xf32>, tensor<i64>, tensor<f32>
}
}
"""

PTX = (Path(__file__).parent / "step.ptx").read_bytes()


def plan(constant_size: int = 0) -> Plan:
    """Returns the launch plan of the program."""
    w, n = TensorType("w", "f32", (2, 3)), TensorType("n", "i64", ())
    lr, x, k = TensorType("lr", "f32", ()), TensorType("x", "f32", (2, 3)), TensorType("k", "i64", ())
    look_up = Launch(0, False, (("input", 2, 0), ("input", 1, 0), ("output", 0, 0)), grid=(1, 1, 1))
    places = (("state", 0, 0), ("state", 1, 0), ("input", 0, 0), ("input", 1, 0))
    return Plan(
        processor="gpu",
        arena_size=64,
        constant_size=constant_size,
        states=(w, n),
        inputs=(lr, x, k),
        outputs=(TensorType("loss", "f32", ()),),
        messages=("index out of range for a tensor of shape [2, 3]",),
        kernels=(Kernel("look_up", block=(1, 1, 1)), Kernel("update", block=(6, 1, 1))),
        launches=(look_up, Launch(1, True, places, grid=(1, 1, 1))),
    )


def program() -> Program:
    """Returns the program with its signature and its initial state."""
    tensor = TensorType
    return Program(
        to_bytes(TEXT),
        (tensor("w", "f32", (2, 3)), tensor("n", "i64", ())),
        (tensor("lr", "f32", ()), tensor("x", "f32", (2, 3)), tensor("k", "i64", ())),
        (tensor("loss", "f32", ()),),
        1,
        (np.arange(6, dtype=np.float32).reshape(2, 3) / 7, np.array(3, np.int64)),
    )


def code(architecture: str = "sm_75", cubin: bytes | None = None, constants: bytes = b"") -> TargetCode:
    """Returns the program's device code: PTX, and `cubin` as if it had been assembled."""
    return TargetCode(architecture, cubin, PTX, plan(len(constants)), constants)


def steps(count: int) -> list[list[np.ndarray]]:
    """Returns random inputs for `count` steps, in which no check fails."""
    random = np.random.default_rng(1)
    return [
        [
            np.array(random.uniform(), np.float32),
            random.standard_normal((2, 3), np.float32),
            np.array(random.integers(3), np.int64),
        ]
        for _ in range(count)
    ]
