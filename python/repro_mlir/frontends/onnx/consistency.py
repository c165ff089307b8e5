# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Checks ONNX nodes for contradictions between attributes and inputs that the operators would not notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.nodes import Call


def require_consistency(call: Call) -> None:
    """Raises OnnxError if attributes and inputs of a node contradict each other."""
    check = _CHECKS.get(call.node.operator)
    if check is not None:
        check(call)


def _require(name: str, found: Any, expected: Any, by: str) -> None:
    if found != expected:
        raise OnnxError(f"expected {name} {expected} to match {by}, got {found}")


def _count(name: str, given: Sequence[Any], expected: int, by: str) -> None:
    if len(given) != expected:
        raise OnnxError(f"expected {expected} {name} to match {by}, got {len(given)}")


def _shape(call: Call, index: int, name: str, expected: Sequence[int], by: str) -> None:
    """Requires an optional input, if present, to have the shape `expected`; messages say that `by` requires it."""
    if call.has(index):
        _require(f"{name} of shape", [*call.tensor(index).shape], [*expected], by)


def _lengths(call: Call, rank: int) -> None:
    """Requires each window attribute that is present to have one number (pads: two) per spatial dimension."""
    for name, count in (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("output_padding", 1), ("pads", 2)):
        if (given := call.attribute(name)) is not None:
            _count(f"numbers of {name}", given, count * rank, f"{rank} spatial dimensions")


def _convolution(weight: int, bias: int | None, *, transposed: bool = False) -> Callable[[Call], None]:
    """Returns the check of a convolution whose image is input 0; `weight` and `bias` are indices of inputs."""

    def check(call: Call) -> None:
        x, w, group = call.tensor(0), call.tensor(weight), call.attribute("group", 1)
        rank = x.dim() - 2
        _require("weights of rank", w.dim(), x.dim(), "the image")
        _lengths(call, rank)
        if (kernel := call.attribute("kernel_shape")) is not None:
            _require("kernel_shape", [*kernel], [*w.shape[2:]], "the weights")
        channels, outer, inner = x.shape[1], w.shape[0], w.shape[1]
        if group < 1 or (outer % group):
            raise OnnxError(f"expected a group that divides {outer}, the first extent of the weights, got {group}")
        wanted = outer if transposed else inner * group
        _require("a channel count of", channels, wanted, f"the weights and group {group}")
        if bias is not None:
            _shape(call, bias, "a bias", [inner * group if transposed else outer], "the weights")

    return check


def _pool(call: Call) -> None:
    _lengths(call, call.tensor(0).dim() - 2)


def _per_channel(*names: str) -> Callable[[Call], None]:
    """Returns a check that the inputs after input 0, called `names`, have one number for each channel of input 0."""

    def check(call: Call) -> None:
        for i, name in enumerate(names):
            _shape(call, 1 + i, name, [call.tensor(0).shape[1]], "the channels")

    return check


def _group_normalization(call: Call) -> None:
    channels, groups = call.tensor(0).shape[1], call.attribute("num_groups")
    if groups < 1 or channels % groups:
        raise OnnxError(f"expected num_groups that divides {channels} channels, got {groups}")
    for index, name in ((1, "scale"), (2, "bias")):
        _shape(call, index, name, [groups if call.version < 21 else channels], "num_groups")


def _recurrent(gates: int) -> Callable[[Call], None]:
    def check(call: Call) -> None:
        x, r = call.tensor(0), call.tensor(2)
        directions = 2 if call.attribute("direction", "forward") == "bidirectional" else 1
        hidden = call.attribute("hidden_size", r.shape[-1])
        batch = x.shape[0 if call.attribute("layout", 0) else 1]
        by = f"hidden_size {hidden} and {directions} directions"
        _shape(call, 1, "W", [directions, gates * hidden, x.shape[2]], by)
        _shape(call, 2, "R", [directions, gates * hidden, hidden], by)
        _shape(call, 3, "B", [directions, 2 * gates * hidden], by)
        _shape(call, 4, "sequence_lens", [batch], "the batch")
        state = [batch, directions, hidden] if call.attribute("layout", 0) else [directions, batch, hidden]
        for index in (5, 6) if gates == 4 else (5,):
            _shape(call, index, "an initial state", state, by)
        if gates == 4:
            _shape(call, 7, "P", [directions, 3 * hidden], by)
        if (names := call.attribute("activations")) is not None:
            count = {1: 1, 3: 2, 4: 3}[gates] * directions
            _count("activations", names, count, f"{directions} directions")

    return check


def _gemm(call: Call) -> None:
    a, b = call.tensor(0), call.tensor(1)
    _require("A and B of ranks", [a.dim(), b.dim()], [2, 2], "the operator")
    rows, inner = a.shape[::-1] if call.attribute("transA", 0) else a.shape
    other, columns = b.shape[::-1] if call.attribute("transB", 0) else b.shape
    _require("B with a row count of", other, inner, "A")
    if call.has(2):
        c = [*call.tensor(2).shape]
        wide = [1] * (2 - len(c)) + c
        if len(c) > 2 or any(given not in (1, whole) for given, whole in zip(wide, (rows, columns), strict=True)):
            raise OnnxError(f"expected C to broadcast to {[rows, columns]}, the shape of A times B, got the shape {c}")


def _scan(call: Call) -> None:
    # In version 8 of Scan, input 0 has the sequence lengths, so it is left out here.
    body, count, given = call.attribute("body"), call.attribute("num_scan_inputs"), call.inputs[call.version < 9 :]
    if not 1 <= count <= len(given):
        raise OnnxError(f"expected num_scan_inputs from 1 to {len(given)}, got {count}")
    _count("inputs of the body", body.input, len(given), "the node")
    state = len(given) - count
    if len(body.output) < state:
        raise OnnxError(f"expected at least {state} outputs of the body, as many as states, got {len(body.output)}")
    for direction, number in (("input", count), ("output", len(body.output) - state)):
        for name in (f"scan_{direction}_axes", f"scan_{direction}_directions"):
            if (numbers := call.attribute(name)) is not None:
                _count(f"numbers of {name}", numbers, number, f"{number} scanned {direction}s")


def _slice(call: Call) -> None:
    starts = call.numbers(1, "starts")
    for index, name in ((2, "ends"), (3, "axes"), (4, "steps")):
        given = call.numbers(index, name)
        if starts is not None and given is not None:
            _count(f"numbers of {name}", given, len(starts), "starts")
            if name == "steps" and 0 in given:
                raise OnnxError(f"expected steps other than 0, got {given[:8]}")


def _pad(call: Call) -> None:
    pads, axes = call.numbers(1, "pads"), call.numbers(3)
    count = call.tensor(0).dim() if axes is None else len(axes)
    if pads is not None:
        _count("numbers of pads", pads, 2 * count, f"{count} axes")


def _split(call: Call) -> None:
    rank, axis = call.tensor(0).dim(), call.attribute("axis", 0)
    sizes, count = call.numbers(1, "split"), call.attribute("num_outputs")
    outputs = len(call.node.outputs)
    if sizes is not None:
        if count is not None:
            raise OnnxError("expected one of split and num_outputs, got both")
        _count("numbers of split", sizes, outputs, f"{outputs} outputs")
        if -rank <= axis < rank:
            _require("sizes with the sum", sum(sizes), call.tensor(0).shape[axis], f"the extent of axis {axis}")
    elif count is not None:
        _require("num_outputs", count, outputs, f"{outputs} outputs")


def _transpose(call: Call) -> None:
    if (perm := call.attribute("perm")) is not None:
        _require("a permutation of", sorted(perm), [*range(call.tensor(0).dim())], "the rank")


_CHECKS: dict[str, Callable[[Call], None]] = {
    "AveragePool": _pool,
    "BatchNormalization": _per_channel("scale", "B", "input_mean", "input_var"),
    "Conv": _convolution(1, 2),
    "ConvInteger": _convolution(1, None),
    "ConvTranspose": _convolution(1, 2, transposed=True),
    "GRU": _recurrent(3),
    "Gemm": _gemm,
    "GroupNormalization": _group_normalization,
    "InstanceNormalization": _per_channel("scale", "B"),
    "LSTM": _recurrent(4),
    "LpPool": _pool,
    "MaxPool": _pool,
    "Pad": _pad,
    "QLinearConv": _convolution(3, 8),
    "RNN": _recurrent(1),
    "Scan": _scan,
    "Slice": _slice,
    "Split": _split,
    "Transpose": _transpose,
}
