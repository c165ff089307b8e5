# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Finds the initializers from which shapes are computed. These initializers are constants, not state."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

NUMBERS: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        ["CumProd", "CumSum", "Expand", "OneHot", "Reshape", "Squeeze", "TopK", "Trilu", "Unsqueeze"], (1,)
    ),
    **dict.fromkeys(["Compress", "SequenceAt", "SequenceErase", "Split", "SplitToSequence", "Tile"], (1,)),
    **dict.fromkeys(["ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"], (1,)),
    **dict.fromkeys(["ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Upsample"], (1,)),
    **dict.fromkeys(["Col2Im", "Dropout"], (1, 2)),
    **dict.fromkeys(["AffineGrid", "CenterCropPad"], (1,)),
    **dict.fromkeys(["BlackmanWindow", "HammingWindow", "HannWindow"], (0,)),
    "ConstantOfShape": (0,),
    "DFT": (1, 2),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "NonZero": (0,),
    "Pad": (1, 2, 3),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "SequenceInsert": (2,),
    "Slice": (1, 2, 3, 4),
}
"""For each operator, the indices of the inputs whose values it needs when the program is created."""

_OF_SHAPES = ("Shape", "Size")


def names_in_shapes(graph: onnx.GraphProto) -> set[str]:
    """Returns the names of all values that must be known when the program is created, and of all values on whose
    elements these depend."""
    nodes = [*_nodes(graph)]
    makers = {name: node for node in nodes for name in node.output}
    waiting = [
        node.input[i] for node in nodes for i in NUMBERS.get(node.op_type, ()) if i < len(node.input) and node.input[i]
    ]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            maker = makers.get(name)
            if maker is not None and maker.op_type not in _OF_SHAPES:
                waiting.extend(maker.input)
                waiting.extend(output.name for inner in _graphs(maker) for output in inner.output)
    return found


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for inner in _graphs(node):
            yield from _nodes(inner)


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
