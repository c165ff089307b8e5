# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests that `device_code.compile` returns PTX and a launch plan that match."""

from __future__ import annotations

import re

import numpy as np
import pytest
from repro_mlir.base.errors import CompileError
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.compilation import gpu as device_code
from repro_mlir.runner.plan import read_plan
from support import device_kit

STEP = """
func.func @main(%w: tensor<8xf32> {repro.name = "w"}, %x: tensor<8xf32>, %i: tensor<i64>)
    -> (tensor<8xf32>, tensor<f32>) attributes {repro.num_state = 1 : i64} {
  %e = tensor.empty() : tensor<8xf32>
  %at = tensor.extract %i[] : tensor<i64>
  %index = arith.index_cast %at : i64 to index
  %chosen = tensor.extract %x[%index] : tensor<8xf32>
  %scalar = tensor.from_elements %chosen : tensor<f32>
  %new = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
      iterator_types = ["parallel"]} ins(%w, %x : tensor<8xf32>, tensor<8xf32>) outs(%e : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %s = arith.subf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<8xf32>
  return %new, %scalar : tensor<8xf32>, tensor<f32>
}
"""


@pytest.mark.parametrize("arch", device_code.architectures())
def test_every_architecture_gives_kernels_that_fit_their_launches(arch: str) -> None:
    code = device_code.compile(STEP, arch)
    assert code.arch == arch
    assert f".target {arch}" in code.ptx
    plan = read_plan(code.plan, "gpu", arch)
    for launch in plan.launches:
        kernel = plan.kernels[launch.kernel]
        entry = re.search(rf"\.visible \.entry {kernel.name}\((.*?)\)", code.ptx, re.S)
        assert entry, kernel.name
        parameters = re.findall(r"\.param (\.\w+)", entry[1])
        assert parameters == [".u64"] * (len(launch.arguments) + 1), "buffers, then the error word"


def test_plan_names_tensors_and_stops_before_a_state_is_written() -> None:
    plan = read_plan(device_code.compile(STEP).plan, "gpu", "plan")
    assert plan.states == (TensorType("w", "f32", (8,)),)
    assert [kind.element for kind in plan.inputs] == ["f32", "i64"]
    assert len(plan.messages) == 1
    writes = [launch for launch in plan.launches if ("state", 0, 0) in launch.arguments]
    assert writes and writes[0].check, "(E1) the state is written after the check"


def test_nothing_is_read_after_the_end_of_a_buffer() -> None:
    """Three consecutive elements at the end of a buffer must not be loaded as a vector of four."""
    program = """
func.func @main(%a: tensor<3x4xf32>, %b: tensor<3xf32>, %c: tensor<4xf32>) -> tensor<4xf32>
    attributes {repro.num_state = 0 : i64} {
  %r = repro.fold #repro.order<chunk = 512, lanes = 1, run = 0, totals = sequential>
      maps [affine_map<(k, i) -> (k, i)>, affine_map<(k, i) -> (k)>, affine_map<(k, i) -> (i)>]
      iterators [reduction, parallel] ins(%a, %b : tensor<3x4xf32>, tensor<3xf32>) outs(%c : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32, %s: f32):
    %p = arith.mulf %x, %y : f32
    %t = arith.addf %p, %s : f32
    repro.yield %t : f32
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}
"""
    inputs = [np.arange(count, dtype=np.float32).reshape(shape) for count, shape in ((12, (3, 4)), (3, 3), (4, 4))]
    device_kit.check(program, inputs, "sm_90")


def test_unknown_architecture() -> None:
    with pytest.raises(CompileError, match="unknown architecture 'sm_20', expected one of sm_75, "):
        device_code.compile(STEP, "sm_20")
