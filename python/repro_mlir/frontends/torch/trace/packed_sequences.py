# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Represents packed sequences (`torch.nn.utils.rnn`) as elements that a mask selects. Recurrent networks accept packed
sequences.

A mask of shape [times, sequences] selects the rows of the packed tensor from those of the padded tensor, of shape
[times, sequences, ...]. Operators treat these rows like any other selection (selected_rows.py). A recurrent network
runs its cell in all time steps. In a time step in which a sequence has no element, the state of the sequence does not
change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.caught_errors import own_attempt
from repro_mlir.frontends.torch.base.errors import CaptureError


class BatchSizes:
    """Replaces the batch sizes of a packed sequence.

    Attributes:
      lengths: i64, shape [sequences], not increasing.
      mask: bool, shape [times, sequences].
    """

    device = torch.device("cpu")
    dtype = torch.int64

    def __init__(self, lengths: torch.Tensor, times: int) -> None:
        self.lengths = lengths
        self.mask = torch.arange(times).unsqueeze(1) < lengths.unsqueeze(0)

    def __getitem__(self, time: int) -> int:
        if time != 0:
            raise CaptureError("the step reads the batch sizes of a packed sequence: use its lengths")
        return self.mask.shape[1]

    def size(self, dim: int) -> int:
        """Returns the number of time steps, as a tensor of batch sizes would."""
        return self.mask.shape[0]

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise CaptureError("the step reads the batch sizes of a packed sequence: use its lengths")

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Refuses all functions. PyTorch accepts an object with this method as a tensor."""
        raise CaptureError(f"the step calls {function.__name__} on batch sizes of a packed sequence: use its lengths")

    def padded(self, data: torch.Tensor, value: float = 0.0, times: int | None = None) -> torch.Tensor:
        """Returns the elements, of shape [times, sequences, ...], padded with `value` after the end of each
        sequence."""
        count, sequences = self.mask.shape
        whole = data.new_full([count, sequences, *data.shape[1:]], value)
        whole[self.mask] = data
        if times is None or times == count:
            return whole
        return torch.cat([whole, data.new_full([times - count, sequences, *data.shape[1:]], value)])


def _pack(x: torch.Tensor, lengths: torch.Tensor, batch_first: bool) -> tuple[torch.Tensor, Any]:
    x = x.transpose(0, 1) if batch_first else x
    if lengths.dim() != 1 or lengths.shape[0] != x.shape[1]:
        raise CaptureError(f"expected a length for each of {x.shape[1]} sequences, got shape {list(lengths.shape)}")
    known = _known(lengths)
    if known is None:
        times = x.shape[0]
        message = f"lengths of packed sequences: expected 1 to {times}, the longest first and of all {times}"
        internals.assert_async((lengths[0] == times) & (lengths[-1] > 0), message)
        internals.assert_async((lengths[:-1] >= lengths[1:]).all(), message)
    else:
        times = known[0]
        if known != sorted(known, reverse=True):
            raise CaptureError("the lengths are not sorted: expected the longest first, or enforce_sorted=False")
        if not 0 < known[-1] <= times <= x.shape[0]:
            raise CaptureError(f"expected lengths from 1 to {x.shape[0]}, got {known[-1]} to {times}")
    sizes = BatchSizes(lengths, times)
    return x[:times][sizes.mask], sizes


def _known(lengths: torch.Tensor) -> list[int] | None:
    """Returns the elements of `lengths` if they follow from constants, else None."""
    if not isinstance(lengths, internals.FakeTensor):
        # The lengths are a constant of the program. The mask also reads the lengths, so a change of the lengths is
        # detected.
        with internals.disable_current_modes():
            return [int(each) for each in lengths]
    try:
        with own_attempt():
            return [int(lengths[i]) for i in range(lengths.shape[0])]
    except (CaptureError, internals.DataDependentOutputException, GuardOnDataDependentSymNode):
        return None


def _pad(
    data: torch.Tensor, sizes: Any, batch_first: bool, padding_value: float, total_length: int
) -> tuple[torch.Tensor, torch.Tensor]:
    whole = _packed_here(sizes).padded(data, padding_value, total_length)
    return whole.transpose(0, 1) if batch_first else whole, sizes.lengths


def _packed_here(sizes: Any) -> BatchSizes:
    if not isinstance(sizes, BatchSizes):
        raise CaptureError(
            "the step gets a packed sequence: pass the padded tensor and its lengths, and pack them in the step"
        )
    return sizes


_State = tuple[torch.Tensor, ...]
_Cell = Callable[[torch.Tensor, _State, Sequence[torch.Tensor], bool], _State]


def _gates(x: torch.Tensor, hidden: torch.Tensor, weights: Sequence[torch.Tensor], bias: bool) -> list[torch.Tensor]:
    """Returns the products of a cell's weights with its input and with its state, plus the biases."""
    biases = weights[2:4] if bias else (None, None)
    return [F.linear(x, weights[0], biases[0]), F.linear(hidden, weights[1], biases[1])]


def _lstm_cell(x: torch.Tensor, state: _State, weights: Sequence[torch.Tensor], bias: bool) -> _State:
    own, other = _gates(x, state[0], weights, bias)
    entry, forget, new, exit_gate = (own + other).chunk(4, 1)
    cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(entry) * torch.tanh(new)
    hidden = torch.sigmoid(exit_gate) * torch.tanh(cell)
    projected = len(weights) == (5 if bias else 3)
    return F.linear(hidden, weights[-1]) if projected else hidden, cell


def _gru_cell(x: torch.Tensor, state: _State, weights: Sequence[torch.Tensor], bias: bool) -> _State:
    own, other = (each.chunk(3, 1) for each in _gates(x, state[0], weights, bias))
    reset, update = torch.sigmoid(own[0] + other[0]), torch.sigmoid(own[1] + other[1])
    new = torch.tanh(own[2] + reset * other[2])
    return ((state[0] - new) * update + new,)


def _rnn_cell(function: Callable[[torch.Tensor], torch.Tensor]) -> _Cell:
    def cell(x: torch.Tensor, state: _State, weights: Sequence[torch.Tensor], bias: bool) -> _State:
        own, other = _gates(x, state[0], weights, bias)
        return (function(own + other),)

    return cell


def _network(cell: _Cell, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that runs a recurrent network on packed sequences, and calls `function` on other inputs."""

    def call(*args: Any, **kwargs: Any) -> Any:
        # For inputs that are not packed, the second argument is the state.
        if len(args) != 9 or isinstance(args[1], tuple | list) or args[1].dtype is not torch.int64:
            return function(*args, **kwargs)
        data, sizes, given, weights, bias, layers, dropout, training, is_bidirectional = args
        sizes = _packed_here(sizes)
        initial = tuple(given) if isinstance(given, tuple | list) else (given,)
        directions = 2 if is_bidirectional else 1
        per_cell = len(weights) // (layers * directions)
        x, finals = sizes.padded(data), []
        for layer in range(layers):
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                own = weights[number * per_cell : (number + 1) * per_cell]
                state = tuple(each[number] for each in initial)
                rows: list[torch.Tensor] = []
                times = range(x.shape[0])
                for time in reversed(times) if direction else times:
                    lives = sizes.mask[time].unsqueeze(1)
                    new = cell(x[time], state, own, bias)
                    state = tuple(torch.where(lives, *pair) for pair in zip(new, state, strict=True))
                    rows.append(state[0])
                outputs.append(torch.stack(rows[::-1] if direction else rows))
                finals.append(state)
            x = torch.cat(outputs, -1) if is_bidirectional else outputs[0]
            if dropout and training and layer < layers - 1:
                x = F.dropout(x, dropout, True)
        return x[sizes.mask], *(torch.stack(column) for column in zip(*finals, strict=True))

    return call


PACKED: dict[Any, Callable[..., Any]] = {
    internals.pack_padded_sequence: _pack,
    internals.pad_packed_sequence: _pad,
    torch.lstm: _network(_lstm_cell, torch.lstm),
    torch.gru: _network(_gru_cell, torch.gru),
    torch.rnn_tanh: _network(_rnn_cell(torch.tanh), torch.rnn_tanh),
    torch.rnn_relu: _network(_rnn_cell(torch.relu), torch.rnn_relu),
}
"""PyTorch functions, each with its replacement."""
