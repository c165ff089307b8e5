# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the frontend with a tried version of onnx: the bits are those of the repository's own version."""

from pathlib import Path

import numpy as np
import onnx
import repro_mlir
from onnx import TensorProto, helper, numpy_helper
from repro_mlir.base.numerics.hashing import state_hash

HASH = "f85c295d3556c8acbdcb47eb12a6026aa4c7e09ed11c12e8588e69a3f8b8f632"
"""The hash of the result with onnx 1.23.2."""


def values(*shape: int) -> np.ndarray:
    return ((np.arange(np.prod(shape)) * 37 % 101 - 50) / 128).astype(np.float32).reshape(shape)


def test_a_file_of_a_convolutional_network(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "kernel", "bias"], ["windows"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["windows"], ["gates"]),
        helper.make_node("Mul", ["windows", "gates"], ["active"]),
        helper.make_node("AveragePool", ["active"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["rows"]),
        helper.make_node("Gemm", ["rows", "weight", "offset"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    arrays = {"kernel": values(4, 1, 3, 3), "bias": values(4), "weight": values(3, 64), "offset": values(3)}
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "model.onnx"))
    executable = repro_mlir.compile(str(tmp_path / "model.onnx"), sizes={"batch": 2}, threads=1)
    _, outputs = executable(executable.program.initial_state(), values(2, 1, 8, 8))
    np.testing.assert_allclose(outputs["y"].sum(-1), 1, 1e-6)
    assert state_hash([(outputs["y"], "f32")]) == HASH
