# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""ONNX operators that run subgraphs (If, Loop, Scan, SequenceMap), and operators on sequences of known length."""

from __future__ import annotations

from typing import Any

import onnx
import torch

from repro_mlir.base.field_checks import shown
from repro_mlir.frontends.onnx.errors import OnnxError
from repro_mlir.frontends.onnx.movement import axis_of
from repro_mlir.frontends.onnx.nodes import Call, Operator, constant, elements, is_known


def _if(call: Call) -> Any:
    condition = call.tensor()
    branches = [call.attribute("then_branch"), call.attribute("else_branch")]
    if is_known(condition):
        return tuple(call.run_graph(branches[0] if call.number(0) else branches[1], []))
    results = []
    for then, other in zip(*(call.run_graph(branch, []) for branch in branches), strict=True):
        if not isinstance(then, torch.Tensor) or not isinstance(other, torch.Tensor) or then.shape != other.shape:
            raise OnnxError("the branch depends on tensor values: expected branches that return the same shapes")
        results.append(torch.where(condition.reshape(()), then, other))
    return tuple(results)


def _loop(call: Call) -> Any:
    body = call.attribute("body")
    most = call.number(0) if call.has(0) else None
    condition: Any = call.inputs[1] if call.has(1) else constant(True, torch.bool)
    carried = [*call.inputs[2:]]
    rows: list[list[torch.Tensor]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    if most is not None and is_known(condition) and elements(condition)[0] and _runs_on(body):
        call.require(most * (1 + len(body.node)))
    step = 0
    while most is None or step < most:
        if not is_known(condition):
            raise OnnxError("the number of steps depends on tensor values: expected a constant condition")
        if not elements(condition)[0]:
            break
        results = call.run_graph(body, [constant(step), condition, *carried])
        condition, carried = results[0], results[1 : 1 + len(carried)]
        for row, value in zip(rows, results[1 + len(carried) :], strict=True):
            row.append(_tensor(value))
        step += 1
    _require_steps(rows)
    return *carried, *(torch.stack(row) for row in rows)


def _runs_on(body: onnx.GraphProto) -> bool:
    """Whether the body of a loop returns the condition that it receives: the loop then runs all iterations or none."""
    copies = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity" and not node.domain}
    condition = body.output[0].name
    # This loop terminates, because each name is written only once.
    while condition in copies:
        condition = copies[condition]
    return bool(condition == body.input[1].name)


def _require_steps(gathered: list[list[torch.Tensor]]) -> None:
    if not all(gathered):
        raise OnnxError("expected at least one step, got 0: the shape of the scan outputs is unknown")


def _tensor(value: Any) -> torch.Tensor:
    if not isinstance(value, torch.Tensor):
        raise OnnxError(f"expected a tensor from the graph of the node, got {shown(value)}")
    return value


def _scan(call: Call) -> Any:
    body, count = call.attribute("body"), call.attribute("num_scan_inputs")
    inputs = [*call.inputs]
    if call.version < 9:
        if inputs[0] is not None:
            raise OnnxError("sequence lengths are not supported")
        if any(call.attribute("directions", [])):
            raise OnnxError("directions of version 8 are not supported")
        return _scan_of_batches(call, inputs[1:])
    split = len(inputs) - count
    axes = call.attribute("scan_input_axes", [0] * count)
    backwards = call.attribute("scan_input_directions", [0] * count)
    num_outputs = len(body.output) - split
    out_axes = call.attribute("scan_output_axes", [0] * num_outputs)
    out_backwards = call.attribute("scan_output_directions", [0] * num_outputs)
    state, rows = inputs[:split], [_tensor(each) for each in inputs[split:]]
    axes = [axis_of(axis, row.dim()) for axis, row in zip(axes, rows, strict=True)]
    rows = [row.flip(a) if back else row for row, a, back in zip(rows, axes, backwards, strict=True)]
    steps, *others = (row.shape[axis] for axis, row in zip(axes, rows, strict=True))
    if any(other != steps for other in others):
        raise OnnxError(f"expected scanned inputs of the same length, got {[steps, *others]}")
    call.require(steps * (1 + len(body.node)))
    gathered: list[list[torch.Tensor]] = [[] for _ in range(num_outputs)]
    for step in range(steps):
        results = call.run_graph(body, [*state, *(row.select(a, step) for row, a in zip(rows, axes, strict=True))])
        state = results[:split]
        for row, value in zip(gathered, results[split:], strict=True):
            row.append(_tensor(value))
    _require_steps(gathered)
    outputs = []
    for row, axis, back in zip(gathered, out_axes, out_backwards, strict=True):
        row = row[::-1] if back else row
        outputs.append(torch.stack(row, axis_of(axis, row[0].dim() + 1)))
    return *state, *outputs


def _scan_of_batches(call: Call, inputs: list[Any]) -> Any:
    """Runs Scan as version 8 defines it: for each example of a batch separately, along the second dimension."""
    body, count = call.attribute("body"), call.attribute("num_scan_inputs")
    split = len(inputs) - count
    results = []
    call.require(inputs[0].shape[0] * inputs[split].shape[1] * (1 + len(body.node)))
    for example in range(inputs[0].shape[0]):
        state = [each[example] for each in inputs[:split]]
        gathered: list[list[torch.Tensor]] = [[] for _ in range(len(body.output) - split)]
        for step in range(inputs[split].shape[1]):
            found = call.run_graph(body, [*state, *(each[example, step] for each in inputs[split:])])
            state = [_tensor(each) for each in found[:split]]
            for row, value in zip(gathered, found[split:], strict=True):
                row.append(_tensor(value))
        results.append([*state, *(torch.stack(row) for row in gathered)])
    return tuple(torch.stack(each) for each in zip(*results, strict=True))


def _sequence_at(call: Call) -> torch.Tensor:
    return call.sequence()[call.number(1)]


def _sequence_insert(call: Call) -> list[torch.Tensor]:
    sequence = [*call.sequence()]
    sequence.insert(call.number(2, default=len(sequence)), call.tensor(1))
    return sequence


def _sequence_erase(call: Call) -> list[torch.Tensor]:
    sequence = [*call.sequence()]
    del sequence[call.number(1, default=-1)]
    return sequence


def _split_to_sequence(call: Call) -> list[torch.Tensor]:
    x = call.tensor()
    axis = axis_of(call.attribute("axis", 0), x.dim())
    if not call.has(1):
        parts = torch.split(x, 1, axis)
        return [*parts] if call.attribute("keepdims", 1) else [part.squeeze(axis) for part in parts]
    sizes = call.numbers(1) or []
    return [*torch.split(x, sizes if call.tensor(1).dim() else int(sizes[0]), axis)]


def _concat_from_sequence(call: Call) -> torch.Tensor:
    join = torch.stack if call.attribute("new_axis", 0) else torch.cat
    return join(call.sequence(), call.attribute("axis"))


def _optional_has(call: Call) -> torch.Tensor:
    return constant(call.has(0), torch.bool)


def _optional_get(call: Call) -> Any:
    if not call.has(0):
        raise OnnxError("expected an optional that has a value, got an empty one")
    return call.inputs[0]


def _sequence_map(call: Call) -> Any:
    body = call.attribute("body")
    rows = []
    call.require(len(call.sequence(0)) * (1 + len(body.node)))
    for step in range(len(call.sequence(0))):
        arguments = [each[step] if isinstance(each, list) else each for each in call.inputs]
        rows.append(call.run_graph(body, arguments))
    return tuple([_tensor(row[i]) for row in rows] for i in range(len(body.output)))


CONTROL: dict[str, Operator] = {
    "ConcatFromSequence": _concat_from_sequence,
    "If": _if,
    "Loop": _loop,
    "Optional": lambda call: call.inputs[0] if call.inputs else None,
    "OptionalGetElement": _optional_get,
    "OptionalHasElement": _optional_has,
    "Scan": _scan,
    "SequenceAt": _sequence_at,
    "SequenceConstruct": lambda call: call.tensors(),
    "SequenceEmpty": lambda call: [],
    "SequenceErase": _sequence_erase,
    "SequenceInsert": _sequence_insert,
    "SequenceLength": lambda call: constant(len(call.sequence())),
    "SequenceMap": _sequence_map,
    "SplitToSequence": _split_to_sequence,
}
