# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Functions of PyTorch's packed sequences: values and gradients match those of eager PyTorch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from repro_mlir import ReproError
from repro_mlir.frontends.torch.trace.tracing import first_stage, second_stage
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

_generator = torch.Generator().manual_seed(2)
X = torch.randn(3, 4, 2, generator=_generator)
"""Three sequences of four elements."""
FIXED = torch.tensor([4, 3, 1])


def _padded(network: nn.Module, lengths: Any, **options: Any) -> Callable[..., Any]:
    def run(x: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        packed = pack_padded_sequence(x, given[0] if given else lengths, batch_first=True, **options)
        output, state = network(packed)
        padded, found = pad_packed_sequence(output, batch_first=True, padding_value=-1.0, total_length=5)
        return [padded, found, *(state if isinstance(state, tuple) else [state])]

    return run


def _packed_loss(network: nn.Module) -> Callable[..., Any]:
    def run(x: torch.Tensor, lengths: torch.Tensor) -> list[torch.Tensor]:
        output, _ = network(pack_padded_sequence(x.transpose(0, 1), lengths))
        return [output.data.mean(), network(pack_sequence([x[0], x[1, :2]]))[1]]

    return run


torch.manual_seed(0)
_CASES = [
    (_padded(nn.LSTM(2, 3, num_layers=2, bidirectional=True, batch_first=True), [3, 3, 2]), ()),
    (_padded(nn.LSTM(2, 3, proj_size=2, batch_first=True), None, enforce_sorted=False), (torch.tensor([2, 4, 3]),)),
    (_padded(nn.GRU(2, 3, batch_first=True, bias=False), FIXED), ()),
    (_padded(nn.GRU(2, 3, batch_first=True), None), (FIXED,)),
    (_padded(nn.RNN(2, 3, batch_first=True, nonlinearity="relu"), [1, 4, 2], enforce_sorted=False), ()),
    (_packed_loss(nn.RNN(2, 3)), (FIXED,)),
]


def _step(function: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        leaf = x.detach().requires_grad_()
        results = function(leaf, *given)
        total = sum(each.square().sum() for each in results if each.is_floating_point())
        return [*(each.detach() for each in results), *torch.autograd.grad(total, [leaf])]

    return step


@pytest.mark.parametrize("case", range(len(_CASES)))
def test_values_and_gradients(case: int) -> None:
    function, given = _CASES[case]
    expected = _step(function)(X, *given)
    graph = second_stage(first_stage(_step(function), (X, *given)))
    torch.testing.assert_close([*graph(X, *given)], expected)


def test_lengths_are_checked() -> None:
    network = nn.GRU(2, 3, batch_first=True)
    with pytest.raises(ReproError, match="the longest first, or enforce_sorted=False"):
        first_stage(_padded(network, [1, 2, 3]), (X,))
    graph = second_stage(first_stage(_padded(network, None), (X, FIXED)))
    for wrong in ([3, 2, 1], [4, 2, 3], [4, 3, 0]):
        with pytest.raises(RuntimeError, match="the longest first and of all 4"):
            graph(X, torch.tensor(wrong))


def test_a_packed_sequence_of_the_batch_is_refused() -> None:
    packed, network = pack_padded_sequence(X, FIXED, batch_first=True), nn.LSTM(2, 3)
    with pytest.raises(ReproError, match="pass the padded tensor and its lengths, and pack them in the step"):
        first_stage(
            lambda data, sizes: [network(PackedSequence(data, sizes))[0].data], (packed.data, packed.batch_sizes)
        )
