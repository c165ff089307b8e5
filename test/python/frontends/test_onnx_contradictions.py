# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX models that contradict themselves or whose tensors are too large for any memory are refused with a one-line
error, before anything is computed."""

import re
from typing import Any

import numpy as np
import pytest
from repro_mlir import ReproError

onnx = pytest.importorskip("onnx")
pytest.importorskip("torch_mlir")

from onnx import TensorProto  # noqa: E402
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info  # noqa: E402
from repro_mlir.frontends.onnx import load  # noqa: E402


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def model(nodes: list[Any], x: list[int], weights: dict[str, Any], output: str = "y", opset: int = 21) -> Any:
    """Returns a model with one input named x and one output; `weights` are its initializers."""
    graph = make_graph(
        nodes,
        "graph",
        [make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [make_tensor_value_info(output, TensorProto.FLOAT, ["any"])],
        [onnx.numpy_helper.from_array(np.array(value), name) for name, value in weights.items()],
    )
    return make_model(graph, opset_imports=[make_opsetid("", opset)], ir_version=10)


ROWS = {
    "body": make_graph(
        [make_node("Add", ["s", "r"], ["t"]), make_node("Identity", ["t"], ["o"])],
        "rows",
        [make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "sr"],
        [make_tensor_value_info(name, TensorProto.FLOAT, []) for name in "to"],
    )
}
W, KERNEL = zeros(4, 2, 3, 3), [1, 2, 8, 8]
LSTM = {"w": zeros(1, 20, 4), "r": zeros(1, 20, 5)}
CONTRADICTIONS: list[tuple[str, list[int], dict[str, Any], dict[str, Any], str]] = [
    ("Conv", KERNEL, {"w": W}, {"kernel_shape": [5, 5]}, "kernel_shape [3, 3] to match the weights, got [5, 5]"),
    ("Conv", KERNEL, {"w": W}, {"group": 3}, "expected a group that divides 4, the first extent of the weights, got 3"),
    ("Conv", KERNEL, {"w": W}, {"group": 2}, "expected a channel count of 4 to match the weights and group 2, got 2"),
    ("Conv", KERNEL, {"w": W, "b": zeros(1)}, {}, "expected a bias of shape [4] to match the weights, got [1]"),
    ("Conv", KERNEL, {"w": W}, {"pads": [1, 1]}, "expected 4 numbers of pads to match 2 spatial dimensions, got 2"),
    ("ConvTranspose", KERNEL, {"w": zeros(2, 4, 3, 3)}, {"kernel_shape": [2, 2]}, "expected kernel_shape [3, 3]"),
    ("MaxPool", KERNEL, {}, {"kernel_shape": [2, 2], "pads": [0, 0]}, "expected 4 numbers of pads"),
    ("AveragePool", KERNEL, {}, {"kernel_shape": [2]}, "expected 2 numbers of kernel_shape"),
    ("LSTM", [3, 2, 4], LSTM, {"hidden_size": 7}, "expected W of shape [1, 28, 4] to match hidden_size 7"),
    ("LSTM", [3, 2, 4], LSTM, {"direction": "bidirectional"}, "expected W of shape [2, 20, 4] to match hidden_size 5"),
    ("LSTM", [3, 2, 4], LSTM, {"activations": ["Tanh"]}, "expected 3 activations to match 1 directions, got 1"),
    ("GRU", [3, 2, 4], {"w": zeros(1, 15, 4), "r": zeros(1, 15, 5)}, {"hidden_size": 4}, "expected W of shape"),
    ("RNN", [3, 2, 4], {"w": zeros(1, 5, 4), "r": zeros(1, 5, 5), "b": zeros(1, 1)}, {}, "expected B of shape [1, 10]"),
    ("BatchNormalization", [1, 3, 4], dict.fromkeys("abcd", zeros(1)), {}, "expected scale of shape [3]"),
    ("InstanceNormalization", [1, 3, 4], dict.fromkeys("ab", zeros(1)), {}, "expected scale of shape [3]"),
    ("GroupNormalization", [1, 3, 4], dict.fromkeys("ab", zeros(3)), {"num_groups": 2}, "that divides 3 channels"),
    ("Gemm", [2, 3], {"w": zeros(4, 4)}, {}, "expected B with a row count of 3 to match A, got 4"),
    ("Gemm", [1, 3], {"w": zeros(3, 4), "c": zeros(5, 4)}, {}, "expected C to broadcast to [1, 4]"),
    ("Reshape", [2, 3], {"s": [0, -1]}, {"allowzero": 1}, "expected a shape with -1 or 0, not both"),
    ("Pad", [2, 3], {"p": [1, 1, 1]}, {}, "expected 4 numbers of pads to match 2 axes, got 3"),
    ("Scan", [3], {"w": zeros(5)}, {**ROWS, "num_scan_inputs": 2}, "scanned inputs of the same length, got [3, 5]"),
    ("Scan", [0], {"w": zeros(0)}, {**ROWS, "num_scan_inputs": 2}, "expected at least one step, got 0"),
    ("Scan", [3], {"w": zeros(3)}, {**ROWS, "num_scan_inputs": 0}, "expected num_scan_inputs from 1 to 2, got 0"),
    ("Scan", [3], {}, {**ROWS, "num_scan_inputs": 1}, "expected 1 inputs of the body to match the node, got 2"),
    (
        *("Scan", [3], {"w": zeros(3)}, {**ROWS, "num_scan_inputs": 2, "scan_input_axes": [0]}),
        "expected 2 numbers of scan_input_axes to match 2 scanned inputs, got 1",
    ),
    ("Slice", [2, 3], {"a": [0], "b": [1, 2]}, {}, "expected 1 numbers of ends to match starts, got 2"),
    ("Slice", [2, 3], {"a": [0], "b": [1], "c": [0], "d": [0]}, {}, "expected steps other than 0"),
    ("Concat", [2, 3], {}, {"axis": 5}, "Dimension out of range"),
    ("Split", [4, 3], {"s": [3]}, {}, "expected sizes with the sum 4 to match the extent of axis 0, got 3"),
    ("Split", [4, 3], {}, {"num_outputs": 3}, "expected num_outputs 1 to match 1 outputs, got 3"),
    ("Transpose", [4, 3], {}, {"perm": [0, 0]}, "expected a permutation of [0, 1] to match the rank, got [0, 0]"),
]


def test_contradictions() -> None:
    for operator, x, weights, attributes, message in CONTRADICTIONS:
        node = make_node(operator, ["x", *weights], ["y"], name="it", **attributes)
        with pytest.raises(ReproError, match=re.escape(message)) as error:
            load(model([node], x, weights))
        assert str(error.value).startswith("node it (") and "\n" not in str(error.value), operator


def test_models_that_nothing_holds() -> None:
    relu = [make_node("Relu", ["x"], ["y"])]
    chain = [make_node("Relu", [f"v{i - 1}" if i else "x"], [f"v{i}"]) for i in range(30_000)]
    scan = [make_node("Scan", ["i", "x"], ["z", "y"], **ROWS, num_scan_inputs=1)]
    with pytest.raises(ReproError, match=r"of shape .* exceeds tensor_bytes"):
        load(model(relu, [2**60], {}))
    cases = [
        (model(relu, [2], {}, opset=9999), "expected an operator set of version [0-9]+ or older, got version 9999"),
        (model(relu, [2**40], {}), "'x' of shape .1099511627776. exceeds tensor_bytes of REPRO_MLIR_LIMITS"),
        (model(chain, [2], {}, "v29999"), "expected a model that runs at most 20,000 nodes, got 30,000"),
        (model(scan, [10**7], {"i": zeros()}), "expected at most 20,000 runs of nodes, each step of loops included"),
    ]
    for given, message in cases:
        with pytest.raises(ReproError, match=message):
            load(given)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REPRO_MLIR_LIMITS", "archive_bytes=1G")
        with pytest.raises(ReproError, match="its 34,359,738,368 bytes do not fit in memory"):
            load(model(relu, [2**33], {}))
